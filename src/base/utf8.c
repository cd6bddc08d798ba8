/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"

size_t wf_utf8_char_bytes(const char *text, size_t bytes)
{
    /* Lead byte range, length, and the allowed range of the second byte (RFC 3629, section 4). */
    static const struct {
        uint8_t lead_first, lead_last, length, second_first, second_last;
    } rows[] = {
        {0x00, 0x7f, 1, 0x00, 0x00}, {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
        {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
        {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
    };
    const uint8_t *s = (const uint8_t *)text;
    for (size_t i = 0; i < WF_COUNT_OF(rows); i++) {
        if (s[0] < rows[i].lead_first || s[0] > rows[i].lead_last) {
            continue;
        }
        size_t length = rows[i].length;
        if (length > bytes) {
            return 0;
        }
        if (length > 1 && (s[1] < rows[i].second_first || s[1] > rows[i].second_last)) {
            return 0;
        }
        for (size_t k = 2; k < length; k++) {
            if ((s[k] & 0xc0) != 0x80) {
                return 0;
            }
        }
        return length;
    }
    return 0;
}

void wf_utf8_sanitise(char *text)
{
    size_t bytes = strlen(text);
    for (size_t i = 0; i < bytes;) {
        size_t length = wf_utf8_char_bytes(text + i, bytes - i);
        bool control = length == 1 && ((uint8_t)text[i] < 0x20 || text[i] == 0x7f);
        if (length == 0 || control) {
            text[i] = '?';
            length = 1;
        }
        i += length;
    }
}
