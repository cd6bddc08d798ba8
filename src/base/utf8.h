/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8: names from models go to terminals and JSON, which both break on what is not text. */
#ifndef WF_BASE_UTF8_H
#define WF_BASE_UTF8_H

#include <stddef.h>

/* Length in bytes (1-4) of the valid UTF-8 character at text, of which `bytes` >= 1 may be read; 0 when it is
 * not valid: overlong, a surrogate, above U+10FFFF, cut (RFC 3629). A zero byte is a character of length 1.
 */
size_t wf_utf8_char_bytes(const char *text, size_t bytes);
/* Replaces, in place, every control character (below U+0020, U+007F) and every byte that is no valid UTF-8 by
 * '?'. */
void wf_utf8_sanitise(char *text);

#endif
