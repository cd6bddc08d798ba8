/* SPDX-License-Identifier: Apache-2.0 */
/* Problems: literal texts, spellings of one work, refusals, and random problems that come back from their
 * text. */
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "op/problem.h"
#include "support/cmocka_all.h"
#include "support/fail_allocator.h"
#include "support/random.h"

static const wf_problem_t *parse(wf_arena_t *arena, const char *text)
{
    const wf_problem_t *problem = NULL;
    wf_assert_ok(wf_problem_parse(text, strlen(text), arena, &problem));
    return problem;
}

static int setup(void **state)
{
    static wf_arena_t arena;
    wf_arena_init(&arena, wf_allocator_system());
    *state = &arena;
    return 0;
}

static int teardown(void **state)
{
    wf_arena_deinit(*state);
    return 0;
}

/* ---- Texts ---- */

static void test_made_text(void **state)
{
    static const int64_t pads[4] = {1, 1, 1, 1};
    wf_attr_t conv[1] = {{.name = "pads", .kind = WF_ATTR_INTS, .count = 4, .v.ints = pads}};
    wf_type_t image = {.dtype = WF_DTYPE_F32, .rank = 4, .dims = {1, 64, 56, 56}};
    wf_problem_operand_t operands[] = {
        {.type = image},
        {.type = {.dtype = WF_DTYPE_F32, .rank = 4, .dims = {64, 64, 3, 3}}, .is_const = true},
        {.type = {.dtype = WF_DTYPE_F32, .rank = 1, .dims = {64}}, .is_const = true},
        {.type = image},
    };
    wf_problem_part_t parts[] = {
        {.op = WF_OP_CONV, .attrs = {.items = conv, .count = 1}, .operands = operands, .operand_count = 3},
        {.op = WF_OP_ADD, .chain_mask = 2, .operands = operands + 3, .operand_count = 1},
        {.op = WF_OP_RELU, .chain_mask = 1},
    };
    const wf_problem_t *problem;
    wf_assert_ok(wf_problem_make(parts, 3, &image, 1, *state, &problem));
    static const char text[] =
        "v1 conv(x:f32[1,64,56,56],y:f32[64,64,3,3]const,z:f32[64]const){dil=1,1 group=1 "
        "pads=1,1,1,1 str=1,1}+add(x:f32[1,64,56,56])+relu->f32[1,64,56,56]";
    assert_string_equal(problem->text, text);
    wf_hash_t hash = wf_hash_bytes(text, sizeof text - 1);
    assert_true(problem->hash[0] == hash.low && problem->hash[1] == hash.high);
    assert_int_equal(problem->operand_count, 4);
    assert_true(problem->operands[1].is_const && !problem->operands[3].is_const);
    assert_int_equal(problem->stage_count, 3);
    assert_int_equal(problem->stages[1].first_operand, 3);
    assert_int_equal(problem->stages[1].operand_count, 1);
    assert_int_equal(problem->stages[1].chain_mask, 1);
    assert_int_equal(problem->stages[2].op, WF_OP_RELU);
    assert_true(wf_type_equal(&problem->stages[0].out, &image));
    /* 2 * 64 * 56 * 56 outputs * 64 * 9, one operation each for add and relu. */
    double outputs = 64.0 * 56 * 56;
    assert_true(wf_problem_flops(problem) == outputs * (2 * 64 * 9 + 2));
    assert_true(wf_problem_bytes(problem) == 4 * (3 * outputs + 64.0 * 64 * 9 + 64));
}

/* Canonical texts are what their own parse prints. */
static void test_canonical_texts(void **state)
{
    static const char *const texts[] = {
        "v1 relu(x:f32[])->f32[]",
        "v1 add(x:f32[2,3],y:f32[3]const)->f32[2,3]",
        "v1 sub(x:f32[2,3],y:f32[2,3])+sub@1(x:f32[3]const)+mul@0&1->f32[2,3]",
        "v1 leakyrelu(x:f16[0,3]){alpha=0x1.99999ap-4}->f16[0,3]",
        "v1 einsum(x:f32[2,3],y:f32[3,4]){equation='ab,bc->ac'}->f32[2,4]",
        "v1 clip(x:f32[4]){max=0x1.8p+2 min=0x0p+0}->f32[4]",
        "v1 clip(x:i32[4],_,y:i32[]const)->i32[4]",
        "v1 constant_of_shape(){shape=2,3 value=i16[1]:0700}->i16[2,3]",
        "v1 constant_of_shape(){shape= value=i64[1]:0100000000000080}->i64[]",
        "v1 lstm(x:f32[5,2,3],y:f32[1,16,3]const,z:f32[1,16,4]const){activations=Sigmoid,Tanh,Tanh "
        "direction=forward "
        "hidden_size=4 input_forget=0 layout=0}->_,f32[1,2,4]",
        "v1 top_k(x:f32[3,4]){axis=1 k=2 largest=1 sorted=1}->f32[3,2],i64[3,2]",
        "v1 wf.attention(x:f32[1,2,8,4],y:f32[1,2,8,4],z:f32[1,2,8,4]){scale=0x1p-1}->f32[1,2,8,4]",
        "v1 wf.convert(x:f32[1,8,2,2]){from=row to=b8}->f32[1,8,2,2]",
        "v1 max(x:f32[2],y:f32[2],z:f32[2],a:f32[2],b:f32[2])->f32[2]",
        "v1 reshape(x:f32[2,3],y:i64[2]){allowzero=0}->f32[3,2]",
        "v1 max_pool(x:f32[1,1,8]){ceil_mode=0 dil=1 kernel=2 pads=0,0 storage_order=0 str=2}->f32[1,1,4]",
    };
    for (size_t i = 0; i < WF_COUNT_OF(texts); i++) {
        const wf_problem_t *problem = parse(*state, texts[i]);
        /* The label of the second clip operand is by position: y is skipped for the absent one. */
        if (strstr(texts[i], "_,y:") != NULL) {
            assert_non_null(strstr(problem->text, "(x:i32[4],_,z:i32[]const)"));
        } else {
            assert_string_equal(problem->text, texts[i]);
        }
        assert_string_equal(parse(*state, problem->text)->text, problem->text);
    }
}

/* The same work, spelled differently. */
static void test_spellings(void **state)
{
    static const char *const pairs[][2] = {
        {"v1 conv(x:f32[1,1,5,5],y:f32[1,1,3,3]){auto_pad=SAME_UPPER}->f32[1,1,5,5]",
         "v1 conv(x:f32[1,1,5,5],y:f32[1,1,3,3]){dil=1,1 group=1 kernel=3,3 pads=1,1,1,1}->f32[1,1,5,5]"},
        {"v1 conv(x:f32[1,1,6,6],y:f32[1,1,3,3]){auto_pad=SAME_UPPER str=2,2}->f32[1,1,3,3]",
         "v1 conv(x:f32[1,1,6,6],y:f32[1,1,3,3]){pads=0,0,1,1 str=2,2}->f32[1,1,3,3]"},
        {"v1 conv(x:f32[1,1,6,6],y:f32[1,1,3,3]){pads=1,1,1,1 str=2,2}->f32[1,1,3,3]",
         "v1 conv(x:f32[1,1,6,6],y:f32[1,1,3,3]){pads=1,1,0,0 str=2,2}->f32[1,1,3,3]"},
        {"v1 conv(x:f32[1,1,5,5],y:f32[1,1,3,3],_)->f32[1,1,3,3]",
         "v1 conv(a:f32[1,1,5,5],b:f32[1,1,3,3])->f32[1,1,3,3]"},
        {"v1 max_pool(x:f32[1,1,5]){kernel=2 str=2 ceil_mode=1}->f32[1,1,3]",
         "v1 max_pool(x:f32[1,1,5]){kernel=2 str=2 pads=0,1}->f32[1,1,3]"},
        {"v1 average_pool(x:f32[1,1,5]){kernel=2 str=2 ceil_mode=1 count_include_pad=1}->f32[1,1,3]",
         "v1 average_pool(x:f32[1,1,5]){kernel=2 str=2 pads=0,1}->f32[1,1,3]"},
        {"v1 conv_transpose(x:f32[1,1,3],y:f32[1,1,3]){str=2 output_shape=8}->f32[1,1,8]",
         "v1 conv_transpose(x:f32[1,1,3],y:f32[1,1,3]){str=2 output_padding=1}->f32[1,1,8]"},
        {"v1 conv_transpose(x:f32[1,1,3],y:f32[1,1,3]){str=2 pads=1,1 output_padding=1}->f32[1,1,6]",
         "v1 conv_transpose(x:f32[1,1,3],y:f32[1,1,3]){str=2 pads=1,0}->f32[1,1,6]"},
        {"v1 softmax(x:f32[2,3]){axis=-1}->f32[2,3]", "v1 softmax(x:f32[2,3]){axis=1}->f32[2,3]"},
        {"v1 reduce_sum(x:f32[2,3])->f32[1,1]", "v1 reduce_sum(x:f32[2,3]){axes=-1,0}->f32[1,1]"},
        {"v1 reduce_sum(x:f32[2,3]){noop_with_empty_axes=1 keepdims=0}->f32[2,3]",
         "v1 reduce_sum(x:f32[2,3]){axes= noop_with_empty_axes=1}->f32[2,3]"},
        {"v1 transpose(x:f32[2,3])->f32[3,2]", "v1 transpose(x:f32[2,3]){perm=1,0}->f32[3,2]"},
        {"v1 reshape(x:f32[2,3,4]){shape=0,-1}->f32[2,12]",
         "v1 reshape(x:f32[2,3,4]){shape=2,12 allowzero=1}->f32[2,12]"},
        {"v1 slice(x:f32[10,4]){starts=-100,1 ends=100,-1 axes=0,-1}->f32[10,2]",
         "v1 slice(x:f32[10,4]){starts=1 ends=3 axes=1}->f32[10,2]"},
        {"v1 slice(x:f32[10]){starts=0 ends=10 steps=4}->f32[3]",
         "v1 slice(x:f32[10]){starts=0 ends=9 steps=4}->f32[3]"},
        {"v1 slice(x:f32[4]){starts=-1 ends=-9223372036854775808 steps=-1}->f32[4]",
         "v1 slice(x:f32[4]){starts=100 ends=-5 steps=-1 axes=-1}->f32[4]"},
        {"v1 pad(x:f32[2,3]){pads=1,2 axes=-1}->f32[2,6]", "v1 pad(x:f32[2,3]){pads=0,1,0,2}->f32[2,6]"},
        {"v1 split(x:f32[6]){num_outputs=2}->f32[3],f32[3]",
         "v1 split(x:f32[6]){split=3,3 axis=-1}->f32[3],f32[3]"},
        {"v1 squeeze(x:f32[1,3,1])->f32[3]", "v1 squeeze(x:f32[1,3,1]){axes=-1,0}->f32[3]"},
        {"v1 expand(x:f32[3,1]){shape=4}->f32[3,4]", "v1 expand(x:f32[3,1]){shape=1,4}->f32[3,4]"},
        {"v1 gemm(x:f32[2,3],y:f32[3,4]){beta=0x1p-1}->f32[2,4]",
         "v1 gemm(x:f32[2,3],y:f32[3,4]){beta=7}->f32[2,4]"},
        {"v1 einsum(x:f32[2,3],y:f32[3,4]){equation=' xy , yz '}->f32[2,4]",
         "v1 einsum(x:f32[2,3],y:f32[3,4]){equation='ij,jk->ik'}->f32[2,4]"},
        {"v1 cast(x:f32[2]){to=7 saturate=0 round_mode=down}->i64[2]", "v1 cast(x:f32[2]){to=7}->i64[2]"},
        {"v1 resize(x:f32[1,1,2,2]){scales=2,3 axes=2,-1}->f32[1,1,4,6]",
         "v1 resize(x:f32[1,1,2,2]){scales=1,1,2,3 cubic_coeff_a=-0.5 extrapolation_value=7}->f32[1,1,4,6]"},
        {"v1 resize(x:f32[1,1,2,2]){sizes=4 axes=2}->f32[1,1,4,2]",
         "v1 resize(x:f32[1,1,2,2]){sizes=1,1,4,2}->f32[1,1,4,2]"},
        {"v1 quantize_linear(x:f32[2,3],y:f32[],z:i8[]){axis=0}->i8[2,3]",
         "v1 quantize_linear(x:f32[2,3],y:f32[],z:i8[]){output_dtype=3}->i8[2,3]"},
        {"v1 gru(x:f32[5,2,3],y:f32[1,12,3],z:f32[1,12,4])->f32[5,1,2,4]",
         "v1 gru(x:f32[5,2,3],y:f32[1,12,3],z:f32[1,12,4]){hidden_size=4 "
         "activations=Sigmoid,Tanh}->f32[5,1,2,4]"},
        {"v1 wf.attention(x:f32[2,4],y:f32[2,4],z:f32[2,4]){scale=1 q_perm=0,1}->f32[2,4]",
         "v1 wf.attention(x:f32[2,4],y:f32[2,4],z:f32[2,4]){scale=0x1p+0}->f32[2,4]"},
        {"v1 relu(x:f32[2])+add@1(y:f32[2])->f32[2]", "v1 relu(x:f32[2])+add(q:f32[2])->f32[2]"},
        {"v1 relu(x:f32[2])+max@2(y:f32[2],z:f32[1])->f32[2]",
         "v1 relu(x:f32[2])+max(q:f32[2],z:f32[1])->f32[2]"},
        {"v1 trilu(x:f32[2,2])->f32[2,2]", "v1 trilu(x:f32[2,2]){k=0}->f32[2,2]"},
        {"v1 flatten(x:f32[2,3,4]){axis=-1}->f32[6,4]", "v1 flatten(x:f32[2,3,4]){axis=2}->f32[6,4]"},
        {"v1 one_hot(x:i64[3],_,z:f32[2]){axis=-2 depth=4}->f32[4,3]",
         "v1 one_hot(x:i64[3],_,z:f32[2]){axis=0 depth=4}->f32[4,3]"},
    };
    for (size_t i = 0; i < WF_COUNT_OF(pairs); i++) {
        const wf_problem_t *left = parse(*state, pairs[i][0]);
        const wf_problem_t *right = parse(*state, pairs[i][1]);
        assert_string_equal(left->text, right->text);
        assert_memory_equal(left->hash, right->hash, sizeof left->hash);
    }
}

/* Different work keeps different texts. */
static void test_differences(void **state)
{
    static const char *const pairs[][2] = {
        {"v1 relu(x:f32[2])+sub@1(y:f32[2])->f32[2]", "v1 relu(x:f32[2])+sub(y:f32[2])->f32[2]"},
        {"v1 add(x:f32[2],y:f32[2]const)->f32[2]", "v1 add(x:f32[2],y:f32[2])->f32[2]"},
        {"v1 conv(x:f32[1,1,6],y:f32[1,1,3]){pads=1,0 str=2}->f32[1,1,3]",
         "v1 conv(x:f32[1,1,6],y:f32[1,1,3]){pads=0,1 str=2}->f32[1,1,3]"},
        {"v1 average_pool(x:f32[1,1,5]){kernel=3 pads=1,1}->f32[1,1,5]",
         "v1 average_pool(x:f32[1,1,5]){kernel=3 pads=1,1 count_include_pad=1}->f32[1,1,5]"},
        {"v1 average_pool(x:f32[1,1,6]){kernel=3 str=2 pads=1,1 ceil_mode=1 count_include_pad=1}->f32[1,1,4]",
         "v1 average_pool(x:f32[1,1,6]){kernel=3 str=2 pads=1,2 count_include_pad=1}->f32[1,1,4]"},
        {"v1 resize(x:f32[1,1,4,4]){scales=1,1,0.6,0.6}->f32[1,1,2,2]",
         "v1 resize(x:f32[1,1,4,4]){sizes=1,1,2,2}->f32[1,1,2,2]"},
        {"v1 cast(x:f32[2]){to=17 saturate=0}->f8e4m3fn[2]", "v1 cast(x:f32[2]){to=17}->f8e4m3fn[2]"},
        {"v1 max_pool(x:f32[1,1,4]){kernel=2 storage_order=1}->f32[1,1,3],i64[1,1,3]",
         "v1 max_pool(x:f32[1,1,4]){kernel=2}->f32[1,1,3],i64[1,1,3]"},
        {"v1 slice(x:f32[4]){starts=0 ends=2}->f32[2]", "v1 slice(x:f32[4]){starts=1 ends=3}->f32[2]"},
    };
    for (size_t i = 0; i < WF_COUNT_OF(pairs); i++) {
        assert_string_not_equal(parse(*state, pairs[i][0])->text, parse(*state, pairs[i][1])->text);
    }
}

/* ---- Refusals ---- */

static void test_refusals(void **state)
{
    static const struct refusal {
        const char *text;
        const char *message;
    } refusals[] = {
        {"", "position 0: expected v1 "},
        {"v2 relu(x:f32[])->f32[]", "position 0: expected v1 "},
        {"v1 rleu(x:f32[])->f32[]", "position 3: expected an operator"},
        {"v1 relu->f32[]", "position 7: expected ("},
        {"v1 relu()->f32[]", "input 0 is missing"},
        {"v1 relu(_)->f32[]", "input 0 is missing"},
        {"v1 relu(x)->f32[]", "position 9: expected :"},
        {"v1 relu(x:f33[])->f32[]", "position 10: expected an element type"},
        {"v1 relu(x:none[])->f32[]", "position 10: expected an element type"},
        {"v1 relu(x:f32[-1])->f32[-1]", "position 14: expected a dimension"},
        {"v1 relu(x:f32[1,])->f32[1]", "position 16: expected an integer"},
        {"v1 relu(x:f32[1,1,1,1,1,1,1,1,1])->f32[]", "position 30: expected ]"},
        {"v1 relu(x:f32[9223372036854775808])->f32[1]", "position 14: expected an integer"},
        {"v1 relu(x:f32[4611686018427387904])->f32[4611686018427387904]", "too large"},
        {"v1 relu(x:f32[2]){alpha=1}->f32[2]", "position 18: expected an attribute of the operator"},
        {"v1 elu(x:f32[2]){alpha=x}->f32[2]", "position 23: expected a float"},
        {"v1 elu(x:f32[2]){alpha=1 alpha=1}->f32[2]", "position 25: expected an attribute of the operator"},
        {"v1 conv(x:f32[1,1,4],y:f32[1,1,2]){group=1 group=1}->f32[1,1,3]", "attribute group is given twice"},
        {"v1 elu(x:f32[2]){}->f32[2]", "position 17: expected an attribute"},
        {"v1 relu(x:f32[2])->f32[3]", "output 0 is said to be f32[3], it is f32[2]"},
        {"v1 relu(x:f32[2])->f32[2],f32[2]", "2 outputs are asked for, there are 1"},
        {"v1 relu(x:f32[2])->_", "no output is wanted"},
        {"v1 relu(x:f32[2])->f32[2] ", "position 25: expected the end"},
        {"v1 relu(x:f32[2])", "position 17: expected ->"},
        {"v1 relu(x:f32[2])+add@(y:f32[2])->f32[2]", "position 22: expected an integer"},
        {"v1 relu(x:f32[2])+add@32(y:f32[2])->f32[2]", "expected ascending input numbers"},
        {"v1 relu(x:f32[2])+sub@1&0->f32[2]", "expected ascending input numbers"},
        {"v1 relu(x:f32[2])+sub@1->f32[2]", "the running value goes to an input behind the last one"},
        {"v1 relu(x:f32[2])+add->f32[2]", "input 1 is missing"},
        {"v1 add(x:f32[2],y:f32[3])->f32[2]", "does not broadcast"},
        {"v1 einsum(x:f32[2]){equation='i->i}->f32[2]", "expected a closing quote"},
        {"v1 einsum(x:f32[2]){equation='\\zz'}->f32[2]", "expected two hexadecimal digits"},
        {"v1 constant_of_shape(){shape=1 value=f32[1]:00}->f32[1]", "expected two hexadecimal digits"},
        {"v1 constant_of_shape(){shape=1 value=f32[1000]:00}->f32[1]", "expected the bytes of the tensor"},
        {"v1 constant_of_shape(){shape=1 value=f32[1]:0000008g}->f32[1]", "expected two hexadecimal digits"},
        {"v1 reshape(x:f32[2,3],y:i64[2])->f32[3,3]", "the output has other elements than the input"},
        {"v1 reshape(x:f32[2,3],y:i64[2])+relu->f32[3,2]", "the shape depends on the value of input 1"},
        {"v1 top_k(x:f32[4]){k=2}+relu->f32[2],i64[2]", "2 stages with 2 outputs"},
    };
    for (size_t i = 0; i < WF_COUNT_OF(refusals); i++) {
        const wf_problem_t *problem;
        wf_status_t status = wf_problem_parse(refusals[i].text, strlen(refusals[i].text), *state, &problem);
        if (wf_status_code(status) != WF_CODE_MODEL_INVALID ||
            strstr(wf_status_message(status), refusals[i].message) == NULL) {
            print_error("%s: %s\n", refusals[i].text, wf_status_message(status));
            fail();
        }
        wf_status_free(status);
    }
}

static void test_limits(void **state)
{
    wf_text_t text;
    wf_text_init(&text, wf_allocator_system(), (size_t)1 << 24);
    wf_text_puts(&text, "v1 relu(x:f32[2])");
    for (int i = 0; i < WF_PROBLEM_MAX_STAGES - 1; i++) {
        wf_text_puts(&text, "+relu");
    }
    size_t allowed = text.length;
    const wf_problem_t *problem;
    wf_text_puts(&text, "->f32[2]");
    wf_assert_ok(wf_problem_parse(wf_text_cstr(&text), text.length, *state, &problem));
    text.length = allowed;
    wf_text_puts(&text, "+relu->f32[2]");
    wf_assert_fails(wf_problem_parse(wf_text_cstr(&text), text.length, *state, &problem), MODEL_INVALID);
    text.length = 0;
    wf_text_puts(&text, "v1 max(x:f32[2]");
    for (int i = 1; i < WF_PROBLEM_MAX_OPERANDS; i++) {
        wf_text_puts(&text, ",x:f32[2]");
    }
    allowed = text.length;
    wf_text_puts(&text, ")->f32[2]");
    wf_assert_ok(wf_problem_parse(wf_text_cstr(&text), text.length, *state, &problem));
    assert_int_equal(problem->operand_count, WF_PROBLEM_MAX_OPERANDS);
    text.length = allowed;
    wf_text_puts(&text, ",x:f32[2])->f32[2]");
    wf_assert_fails(wf_problem_parse(wf_text_cstr(&text), text.length, *state, &problem), MODEL_INVALID);
    text.length = 0;
    wf_text_puts(&text, "v1 relu(x:f32[2])->f32[2]");
    while (text.length <= WF_PROBLEM_MAX_TEXT_BYTES) {
        wf_text_puts(&text, ",_,_,_,_,_,_,_,_");
    }
    wf_assert_fails(wf_problem_parse(wf_text_cstr(&text), text.length, *state, &problem), MODEL_INVALID);
    wf_text_deinit(&text);
}

static void test_make_refuses(void **state)
{
    wf_type_t two = {.dtype = WF_DTYPE_F32, .rank = 1, .dims = {2}};
    wf_type_t three = {.dtype = WF_DTYPE_F32, .rank = 1, .dims = {3}};
    wf_problem_operand_t operand = {.type = two};
    wf_problem_part_t relu = {.op = WF_OP_RELU, .operands = &operand, .operand_count = 1};
    wf_problem_part_t chained = relu;
    chained.chain_mask = 1;
    wf_problem_part_t pair[2] = {relu, relu};
    const wf_problem_t *problem;
    wf_assert_ok(wf_problem_make(&relu, 1, &two, 1, *state, &problem));
    wf_assert_fails(wf_problem_make(&relu, 1, &three, 1, *state, &problem), INTERNAL);
    wf_assert_fails(wf_problem_make(&chained, 1, &two, 1, *state, &problem), INTERNAL);
    wf_assert_fails(wf_problem_make(pair, 2, &two, 1, *state, &problem), INTERNAL);
    wf_assert_fails(wf_problem_make(&relu, 0, &two, 1, *state, &problem), INTERNAL);
    wf_assert_fails(wf_problem_make(&relu, 1, &two, 0, *state, &problem), INTERNAL);
}

/* ---- Costs ---- */

static void test_costs(void **state)
{
    static const struct cost {
        const char *text;
        double flops, bytes;
    } costs[] = {
        {"v1 matmul(x:f32[2,3,4],y:f32[4,5])->f32[2,3,5]", 2 * 30 * 4, 4 * (24 + 20 + 30)},
        {"v1 gemm(x:f32[4,3],y:f32[4,5]){transA=1}->f32[3,5]", 2 * 15 * 4, 4 * (12 + 20 + 15)},
        {"v1 conv(x:f32[1,4,6],y:f32[8,2,3]){group=2}->f32[1,8,4]", 2 * 32 * 6, 4 * (24 + 48 + 32)},
        {"v1 conv_transpose(x:f32[1,4,6],y:f32[4,3,2])->f32[1,3,7]", 2 * 24 * 6, 4 * (24 + 24 + 21)},
        {"v1 einsum(x:f32[2,3],y:f32[3,4]){equation='ab,bc->ac'}->f32[2,4]", 2 * 24, 4 * (6 + 12 + 8)},
        {"v1 max_pool(x:u8[1,1,4,4]){kernel=2,2}->u8[1,1,3,3]", 9 * 4, 16 + 9},
        {"v1 reduce_sum(x:f32[2,3])->f32[1,1]", 6, 4 * 7},
        {"v1 transpose(x:i4[3])->i4[3]", 0, 2 + 2},
        {"v1 add(x:f32[4],y:f32[4])+mul(x:f32[1]const)->f32[4]", 8, 4 * (4 + 4 + 1 + 4)},
        {"v1 max(x:f32[4],y:f32[4],z:f32[4])->f32[4]", 8, 4 * 16},
        {"v1 wf.attention(x:f32[1,8,2,4],y:f32[1,6,2,4],z:f32[1,6,2,3]){k_perm=0,2,1,3 q_perm=0,2,1,3 "
         "scale=1 "
         "v_perm=0,2,1,3}->f32[1,2,8,3]",
         2.0 * 2 * 8 * 6 * 4 + 6 * 2 * 8 * 6 + 2.0 * 2 * 8 * 3 * 6, 4 * (64 + 48 + 36 + 48)},
        {"v1 lstm(x:f32[5,2,3],y:f32[1,16,3],z:f32[1,16,4])->f32[5,1,2,4]", 2.0 * 5 * 2 * (48 + 64),
         4 * (30 + 48 + 64 + 40)},
        {"v1 softmax(x:f32[0,4])->f32[0,4]", 0, 0},
    };
    for (size_t i = 0; i < WF_COUNT_OF(costs); i++) {
        const wf_problem_t *problem = parse(*state, costs[i].text);
        if (wf_problem_flops(problem) != costs[i].flops || wf_problem_bytes(problem) != costs[i].bytes) {
            fail_msg("%s: %g operations, %g bytes", costs[i].text, wf_problem_flops(problem),
                     wf_problem_bytes(problem));
        }
    }
}

/* ---- Random problems ---- */

typedef struct maker {
    wf_random_t random;
    wf_text_t text;
} maker_t;

static int64_t pick(maker_t *self, int64_t low, int64_t high)
{
    return low + (int64_t)wf_random_below(&self->random, (uint64_t)(high - low + 1));
}

static void put_type(maker_t *self, const wf_type_t *type)
{
    wf_text_printf(&self->text, "%s[", wf_dtype_name(type->dtype));
    for (uint32_t i = 0; i < type->rank; i++) {
        wf_text_printf(&self->text, "%s%lld", i > 0 ? "," : "", (long long)type->dims[i]);
    }
    wf_text_puts(&self->text, "]");
}

static void put_list(maker_t *self, const char *name, int64_t count, int64_t low, int64_t high)
{
    wf_text_printf(&self->text, " %s=", name);
    for (int64_t i = 0; i < count; i++) {
        wf_text_printf(&self->text, i > 0 ? ",%lld" : "%lld", (long long)pick(self, low, high));
    }
}

static wf_type_t random_type(maker_t *self, uint32_t rank)
{
    wf_type_t type = {.dtype = WF_DTYPE_F32, .rank = rank};
    for (uint32_t i = 0; i < rank; i++) {
        type.dims[i] = pick(self, pick(self, 0, 9) == 0 ? 0 : 1, 7);
    }
    return type;
}

/* The root of a random problem without outputs, as text. Many of them are refused; that is checked too. */
static void put_window_root(maker_t *self)
{
    static const char *const names[] = {"conv", "conv_transpose", "max_pool", "average_pool", "lp_pool"};
    static const char *const pads[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
    size_t kind = (size_t)pick(self, 0, 4);
    uint32_t spatial = (uint32_t)pick(self, 1, 3);
    int64_t group = pick(self, 1, 3);
    wf_type_t image = random_type(self, 2 + spatial);
    image.dims[1] = group * pick(self, 1, 3);
    wf_text_printf(&self->text, "%s(x:", names[kind]);
    put_type(self, &image);
    if (kind < 2) {
        wf_type_t weight = random_type(self, 2 + spatial);
        weight.dims[0] = kind == 0 ? group * pick(self, 1, 3) : image.dims[1];
        weight.dims[1] = kind == 0 ? image.dims[1] / group : pick(self, 1, 3);
        wf_text_puts(&self->text, ",w:");
        put_type(self, &weight);
        wf_text_puts(&self->text, pick(self, 0, 1) == 0 ? "const" : ",_");
    }
    wf_text_printf(&self->text, "){auto_pad=%s", pads[pick(self, 0, 2) == 0 ? pick(self, 1, 3) : 0]);
    if (kind < 2) {
        wf_text_printf(&self->text, " group=%lld", (long long)group);
    } else {
        put_list(self, "kernel", spatial, 1, 4);
        wf_text_printf(&self->text, " ceil_mode=%lld", (long long)pick(self, 0, 1));
    }
    if (kind == 3) {
        wf_text_printf(&self->text, " count_include_pad=%lld", (long long)pick(self, 0, 1));
    }
    put_list(self, "str", spatial, 1, 4);
    put_list(self, "dil", spatial, 1, 3);
    put_list(self, "pads", 2 * (int64_t)spatial, 0, 3);
    if (kind == 1 && pick(self, 0, 1) == 0) {
        put_list(self, "output_padding", spatial, 0, 2);
    }
    if (kind == 1 && pick(self, 0, 3) == 0) {
        put_list(self, "output_shape", spatial, 1, 30);
    }
    wf_text_puts(&self->text, "}");
}

static void put_movement_root(maker_t *self)
{
    static const char *const names[] = {"slice",     "pad",     "reduce_mean", "transpose",
                                        "unsqueeze", "split",   "softmax",     "gather",
                                        "resize",    "flatten", "tile",        "expand"};
    size_t kind = (size_t)pick(self, 0, (int64_t)WF_COUNT_OF(names) - 1);
    uint32_t rank = (uint32_t)pick(self, 1, 4);
    wf_type_t type = random_type(self, rank);
    int64_t cut = pick(self, 1, rank);
    int64_t last = (int64_t)rank - 1;
    wf_text_printf(&self->text, "%s(x:", names[kind]);
    put_type(self, &type);
    wf_text_puts(&self->text, kind == 7 ? ",i:i64[2,0]){" : "){");
    switch (kind) {
    case 0:
        wf_text_puts(&self->text, "axes=");
        for (int64_t i = 0; i < cut; i++) {
            wf_text_printf(&self->text, i > 0 ? ",%lld" : "%lld",
                           (long long)(pick(self, 0, 1) == 0 ? i : i - (int64_t)rank));
        }
        put_list(self, "starts", cut, -9, 9);
        put_list(self, "ends", cut, -9, 9);
        if (pick(self, 0, 1) == 0) {
            put_list(self, "steps", cut, -3, 3);
        }
        break;
    case 1:
        wf_text_printf(&self->text, "mode=%s", pick(self, 0, 1) == 0 ? "edge" : "constant");
        put_list(self, "pads", 2 * (int64_t)rank, -2, 3);
        break;
    case 2:
        wf_text_printf(&self->text, "keepdims=%lld noop_with_empty_axes=%lld", (long long)pick(self, 0, 1),
                       (long long)pick(self, 0, 1));
        put_list(self, "axes", pick(self, 0, cut), -(int64_t)rank, last);
        break;
    case 3:
        wf_text_puts(&self->text, "perm=");
        for (uint32_t i = 0; i < rank; i++) {
            wf_text_printf(&self->text, i > 0 ? ",%lld" : "%lld", (long long)((i + cut) % rank));
        }
        break;
    case 4:
        wf_text_puts(&self->text, "axes=");
        wf_text_printf(&self->text, "%lld,%lld", (long long)pick(self, -(int64_t)rank - 2, rank + 1),
                       (long long)pick(self, 0, rank + 1));
        break;
    case 5:
        wf_text_printf(&self->text, "axis=%lld num_outputs=1", (long long)pick(self, -(int64_t)rank, last));
        break;
    case 8:
        wf_text_printf(&self->text, "mode=%s", pick(self, 0, 1) == 0 ? "linear" : "nearest");
        if (pick(self, 0, 1) == 0) {
            put_list(self, "axes", 1, -(int64_t)rank, last);
            put_list(self, pick(self, 0, 1) == 0 ? "scales" : "sizes", 1, 1, 4);
        } else {
            put_list(self, pick(self, 0, 1) == 0 ? "scales" : "sizes", rank, 1, 4);
        }
        break;
    case 10:
        wf_text_puts(&self->text, "repeats=");
        for (uint32_t i = 0; i < rank; i++) {
            wf_text_printf(&self->text, i > 0 ? ",%lld" : "%lld", (long long)pick(self, 0, 3));
        }
        break;
    case 11:
        wf_text_puts(&self->text, "shape=");
        for (uint32_t i = 0; i < rank; i++) {
            wf_text_printf(&self->text, i > 0 ? ",%lld" : "%lld",
                           (long long)(type.dims[i] == 1 ? pick(self, 0, 3) : 1));
        }
        break;
    default:
        wf_text_printf(&self->text, "axis=%lld", (long long)pick(self, -(int64_t)rank, last));
    }
    wf_text_puts(&self->text, "}");
}

static void put_stages(maker_t *self)
{
    static const char *const stages[] = {
        "+relu",           "+add(a:f32[1]const)", "+sub@1(a:f32[])",          "+mul@0&1",
        "+elu{alpha=0.3}", "+clip{min=-1 max=6}", "+max@1(a:f32[1],b:f32[])", "+where@1(c:bool[],d:f32[])"};
    for (int64_t count = pick(self, 0, 3); count > 0; count--) {
        wf_text_puts(&self->text, stages[pick(self, 0, (int64_t)WF_COUNT_OF(stages) - 1)]);
    }
}

/* Finds the outputs that inference wants: it says them in its refusal of wrong ones. */
static bool complete(maker_t *self, wf_arena_t *arena)
{
    const wf_problem_t *problem;
    size_t length = self->text.length;
    wf_text_puts(&self->text, "->str[12345]");
    wf_status_t status = wf_problem_parse(wf_text_cstr(&self->text), self->text.length, arena, &problem);
    if (wf_status_code(status) != WF_CODE_MODEL_INVALID) {
        fail_msg("%s: %s", wf_text_cstr(&self->text), wf_status_message(status));
    }
    const char *said = strstr(wf_status_message(status), "str[12345], it is ");
    char output[256] = "";
    if (said != NULL) {
        snprintf(output, sizeof output, "%s", said + strlen("str[12345], it is "));
    }
    wf_status_free(status);
    self->text.length = length;
    wf_text_printf(&self->text, "->%s", output);
    return said != NULL;
}

static void check_round_trip(maker_t *self, wf_arena_t *arena)
{
    const wf_problem_t *first = parse(arena, wf_text_cstr(&self->text));
    const wf_problem_t *second = parse(arena, first->text);
    assert_string_equal(first->text, second->text);
    assert_memory_equal(first->hash, second->hash, sizeof first->hash);
    wf_problem_part_t parts[WF_PROBLEM_MAX_STAGES];
    for (size_t i = 0; i < first->stage_count; i++) {
        const wf_problem_stage_t *stage = &first->stages[i];
        parts[i] = (wf_problem_part_t){.op = stage->op,
                                       .chain_mask = stage->chain_mask,
                                       .attrs = stage->attrs,
                                       .operands = first->operands + stage->first_operand,
                                       .operand_count = stage->operand_count};
    }
    const wf_problem_t *made;
    wf_assert_ok(
        wf_problem_make(parts, first->stage_count, first->outputs, first->output_count, arena, &made));
    assert_string_equal(made->text, first->text);
    assert_true(wf_problem_flops(first) >= 0 && isfinite(wf_problem_flops(first)));
}

static void test_random_problems(void **state)
{
    (void)state;
    maker_t maker = {.random = wf_random_start("problems", 17)};
    size_t made = 0;
    for (int run = 0; run < 20000; run++) {
        wf_arena_t arena;
        wf_arena_init(&arena, wf_allocator_system());
        wf_text_init(&maker.text, wf_allocator_system(), (size_t)1 << 16);
        wf_text_puts(&maker.text, "v1 ");
        if (pick(&maker, 0, 1) == 0) {
            put_window_root(&maker);
        } else {
            put_movement_root(&maker);
        }
        put_stages(&maker);
        if (complete(&maker, &arena)) {
            check_round_trip(&maker, &arena);
            made++;
        }
        wf_text_deinit(&maker.text);
        wf_arena_deinit(&arena);
    }
    assert_true(made > 8000);
}

/* ---- No memory ---- */

static wf_status_t parse_scenario(wf_allocator_t allocator, void *arg)
{
    const char *text = arg;
    const wf_problem_t *problem;
    wf_arena_t arena;
    wf_arena_init(&arena, allocator);
    wf_status_t status = wf_problem_parse(text, strlen(text), &arena, &problem);
    wf_arena_deinit(&arena);
    return status;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    char text[] = "v1 conv(x:f32[1,1,5,5],y:f32[1,1,3,3]){auto_pad=SAME_UPPER}+clip{min=0}->f32[1,1,5,5]";
    assert_true(wf_fail_each_allocation(parse_scenario, text) > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_made_text, setup, teardown),
        cmocka_unit_test_setup_teardown(test_canonical_texts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_spellings, setup, teardown),
        cmocka_unit_test_setup_teardown(test_differences, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_make_refuses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_costs, setup, teardown),
        cmocka_unit_test(test_random_problems),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
