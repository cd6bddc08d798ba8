/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as text, the same in every locale (strtod and printf follow the decimal point of the process). */
#ifndef WF_OP_LITERAL_H
#define WF_OP_LITERAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All of text[0, length) as a decimal integer with optional sign; false otherwise or when it does not fit. */
bool wf_literal_int(const char *text, size_t length, int64_t *out);
/* All of text[0, length) as "0x1.8p-3", "inf", "-inf", "nan" or a decimal number ("0.01", "1e-5"); false
 * otherwise or when it is finite and too large. Decimals of at most 15 digits and exponents within +-22 are
 * rounded correctly. */
bool wf_literal_float(const char *text, size_t length, float *out);

#define WF_LITERAL_FLOAT_MAX 24
/* The text that %a gives in the C locale of glibc, and 0x0p+0, -0x0p+0, inf, -inf, nan; zero-terminated. */
void wf_literal_print_float(float value, char out[WF_LITERAL_FLOAT_MAX]);

#endif
