/* SPDX-License-Identifier: Apache-2.0 */
#include "op/literal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"

/* Digits before a number is taken as too long, so that exponents stay small integers. */
#define LITERAL_MAX_CHARS 64

/* A place in a text. */
typedef struct literal_cursor {
    const char *at;
    const char *end;
} literal_cursor_t;

static bool take_char(literal_cursor_t *cursor, char c)
{
    if (cursor->at == cursor->end || *cursor->at != c) {
        return false;
    }
    cursor->at++;
    return true;
}

/* True for a minus; a plus is passed over. */
static bool take_sign(literal_cursor_t *cursor)
{
    if (take_char(cursor, '-')) {
        return true;
    }
    take_char(cursor, '+');
    return false;
}

bool wf_literal_int(const char *text, size_t length, int64_t *out)
{
    literal_cursor_t cursor = {text, text + length};
    bool negative = take_sign(&cursor);
    int64_t value = 0;
    if (cursor.at == cursor.end) {
        return false;
    }
    for (; cursor.at != cursor.end; cursor.at++) {
        int64_t digit = *cursor.at - '0';
        /* Towards the sign, since INT64_MIN has no positive twin. */
        if (digit < 0 || digit > 9 || !wf_i64_mul(value, 10, &value) ||
            !wf_i64_add(value, negative ? -digit : digit, &value)) {
            return false;
        }
    }
    *out = value;
    return true;
}

static int digit_value(char c, int base)
{
    int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
    return value < base ? value : -1;
}

/* Digits with an optional point. *out_scale is how many digits of the mantissa stand behind the point. */
static bool take_digits(literal_cursor_t *cursor, int base, uint64_t mantissa_max, uint64_t *out_mantissa,
                        int32_t *out_scale)
{
    uint64_t mantissa = 0;
    int32_t scale = 0;
    bool point = false;
    bool any = false;
    for (; cursor->at != cursor->end; cursor->at++) {
        if (*cursor->at == '.' && !point) {
            point = true;
            continue;
        }
        int value = digit_value(*cursor->at, base);
        if (value < 0) {
            break;
        }
        any = true;
        if (mantissa > (mantissa_max - (unsigned)value) / (unsigned)base) {
            return false;
        }
        mantissa = mantissa * (unsigned)base + (unsigned)value;
        scale += point ? 1 : 0;
    }
    *out_mantissa = mantissa;
    *out_scale = scale;
    return any;
}

/* The exponent after its letter, or 0 when the text ends here. */
static bool take_exponent(literal_cursor_t *cursor, char letter, int32_t *out_exponent)
{
    *out_exponent = 0;
    if (cursor->at == cursor->end) {
        return true;
    }
    int64_t exponent;
    if (!take_char(cursor, letter) ||
        !wf_literal_int(cursor->at, (size_t)(cursor->end - cursor->at), &exponent) || exponent < -1000 ||
        exponent > 1000) {
        return false;
    }
    *out_exponent = (int32_t)exponent;
    return true;
}

bool wf_literal_float(const char *text, size_t length, float *out)
{
    if (length > LITERAL_MAX_CHARS) {
        return false;
    }
    literal_cursor_t cursor = {text, text + length};
    bool negative = take_sign(&cursor);
    size_t rest = (size_t)(cursor.end - cursor.at);
    if (rest == 3 && (memcmp(cursor.at, "inf", 3) == 0 || memcmp(cursor.at, "nan", 3) == 0)) {
        *out = cursor.at[0] == 'n' ? NAN : negative ? -INFINITY : INFINITY;
        return true;
    }
    bool hex = rest > 2 && cursor.at[0] == '0' && cursor.at[1] == 'x';
    cursor.at += hex ? 2 : 0;
    uint64_t mantissa;
    int32_t scale;
    int32_t exponent;
    if (!take_digits(&cursor, hex ? 16 : 10, (uint64_t)1 << 53, &mantissa, &scale) ||
        !take_exponent(&cursor, hex ? 'p' : 'e', &exponent)) {
        return false;
    }
    double value = (double)mantissa;
    if (hex) {
        value = ldexp(value, exponent - 4 * scale);
    } else {
        int32_t tens = exponent - scale;
        double power = 1;
        for (int32_t i = 0; i < (tens < 0 ? -tens : tens) && power <= 1e300; i++) {
            power *= 10;
        }
        value = tens < 0 ? value / power : value * power;
    }
    float rounded = (float)value;
    if (isinf(rounded)) {
        return false;
    }
    *out = negative ? -rounded : rounded;
    return true;
}

void wf_literal_print_float(float value, char out[WF_LITERAL_FLOAT_MAX])
{
    const char *sign = signbit(value) ? "-" : "";
    if (isnan(value)) {
        snprintf(out, WF_LITERAL_FLOAT_MAX, "nan");
    } else if (isinf(value)) {
        snprintf(out, WF_LITERAL_FLOAT_MAX, "%sinf", sign);
    } else if (value == 0) {
        snprintf(out, WF_LITERAL_FLOAT_MAX, "%s0x0p+0", sign);
    } else {
        int exponent;
        double fraction = frexp(fabs((double)value), &exponent);
        /* fraction is in [0.5, 1): one bit before the point and 24 behind it, which are 6 hexadecimal digits.
         */
        uint32_t tail = (uint32_t)ldexp(fraction, 25) & 0xffffffu;
        char digits[8] = ".";
        size_t length = 1;
        for (; tail != 0; tail = tail << 4 & 0xffffffu) {
            digits[length++] = "0123456789abcdef"[tail >> 20];
        }
        digits[length > 1 ? length : 0] = '\0';
        snprintf(out, WF_LITERAL_FLOAT_MAX, "%s0x1%sp%+d", sign, digits, exponent - 1);
    }
}
