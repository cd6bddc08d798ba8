/* SPDX-License-Identifier: Apache-2.0 */
/* Movement, indexing, generation, resizing, quantisation and recurrence of the reference: values from the
 * operator texts or worked out by hand. */
#include "base/compiler.h"
#include "support/cmocka_all.h"
#include "support/ref_case.h"

static void movement(void **state)
{
    (void)state;
    static const wf_ref_case_t cases[] = {
        {"Identity", "f32[2]=1,nan", "", "f32[2]=1,nan"},
        {"Reshape", "i4[2,3]=1,-2,3,-4,5,-6 i64[2]=3,-1", "", "i4[3,2]=1,-2,3,-4,5,-6"},
        {"Flatten", "u8[2,1,2]=1..", "", "u8[2,2]=1.."},
        {"Squeeze", "f32[1,2]=1..", "axes=0", "f32[2]=1.."},
        {"Unsqueeze", "f32[2]=1.. i64[1]=1", "", "f32[2,1]=1.."},
        {"Transpose", "f32[2,3]=1..", "", "f32[3,2]=1,4,2,5,3,6"},
        {"Transpose", "i8[2,1,3]=1..", "perm=2,0,1", "i8[3,2,1]=1,4,2,5,3,6"},
        {"Transpose", "i64[2,2,2]=0..", "perm=1,0,2", "i64[2,2,2]=0,1,4,5,2,3,6,7"},
        {"Transpose", "u4[3,3]=1..", "", "u4[3,3]=1,4,7,2,5,8,3,6,9"},
        {"Transpose", "u2[2,3]=0,1,2,3,0,1", "", "u2[3,2]=0,3,1,0,2,1"},
        {"Concat", "f32[1,2]=1.. f32[2,2]=3..", "axis=0", "f32[3,2]=1.."},
        {"Concat", "f32[2,1]=1,4 f32[2,0]= f32[2,2]=2,3,5,6", "axis=-1", "f32[2,3]=1.."},
        {"Concat", "i4[1]=1 i4[2]=2,3", "axis=0", "i4[3]=1,2,3"},
        {"Split", "f32[5]=1.. i64[2]=2,3", "", "f32[2]=1.. f32[3]=3.."},
        {"Split", "f32[2,3]=1..", "axis=1 num_outputs=2", "f32[2,2]=1,2,4,5 f32[2,1]=3,6"},
        {"Split", "f32[4]=1..", "num_outputs=2", "_ f32[2]=3.."},
        {"Slice", "f32[2,4]=1.. i64[2]=0,1 i64[2]=1,3", "", "f32[1,2]=2,3"},
        {"Slice", "f32[4]=1.. i64[1]=-1 i64[1]=-9223372036854775808 i64[1]=0 i64[1]=-1", "",
         "f32[4]=4,3,2,1"},
        {"Slice", "f32[5]=1..", "starts=1 ends=2147483647 axes=0 steps=2", "f32[2]=2,4"},
        {"Slice", "f32[5]=1..", "starts=3 ends=1", "f32[0]="},
        {"Slice", "f32[3]=1..", "starts=0 ends=3 steps=9223372036854775807", "f32[1]=1"},
        {"Pad", "f32[3]=1.. i64[2]=1,2 f32[]=9", "", "f32[6]=9,1,2,3,9,9"},
        {"Pad", "f32[3]=1..", "pads=-1,1", "f32[3]=2,3,0"},
        {"Pad", "f32[3]=1..", "pads=2,2 mode=reflect", "f32[7]=3,2,1,2,3,2,1"},
        {"Pad", "f32[3]=1..", "pads=5,0 mode=reflect", "f32[8]=2,1,2,3,2,1,2,3"},
        {"Pad", "f32[3]=1..", "pads=2,1 mode=edge", "f32[6]=1,1,1,2,3,3"},
        {"Pad", "f32[3]=1..", "pads=2,2 mode=wrap", "f32[7]=2,3,1,2,3,1,2"},
        {"Pad", "f32[2,2]=1.. i64[2]=1,0 _ i64[1]=-1", "", "f32[2,3]=0,1,2,0,3,4"},
        {"Pad", "bool[1]=1", "pads=1,1", "bool[3]=0,1,0"},
        {"Expand", "f32[2,1]=1,2 i64[3]=2,1,3", "", "f32[2,2,3]=1,1,1,2,2,2,1,1,1,2,2,2"},
        {"Expand", "i8[]=5 i64[1]=3", "", "i8[3]=5"},
        {"Tile", "f32[1,2]=1,2 i64[2]=2,2", "", "f32[2,4]=1,2,1,2,1,2,1,2"},
        {"Tile", "f32[2]=1,2 i64[1]=0", "", "f32[0]="},
        {"DepthToSpace", "f32[1,8,1,1]=0..", "blocksize=2", "f32[1,2,2,2]=0,2,4,6,1,3,5,7"},
        {"DepthToSpace", "f32[1,8,1,1]=0..", "blocksize=2 mode=CRD", "f32[1,2,2,2]=0.."},
        {"SpaceToDepth", "f32[1,2,2,2]=0,2,4,6,1,3,5,7", "blocksize=2", "f32[1,8,1,1]=0.."},
        {"ReverseSequence", "f32[3,2]=1.. i64[2]=2,3", "", "f32[3,2]=3,6,1,4,5,2"},
        {"ReverseSequence", "f32[2,1]=1.. i64[1]=3", "", "!sequence length 3 of row 0"},
        {"Trilu", "f32[2,3]=1..", "", "f32[2,3]=1,2,3,0,5,6"},
        {"Trilu", "i64[2,3]=1.. i64[]=-1", "upper=0", "i64[2,3]=0,0,0,4,0,0"},
        {"Trilu", "f32[2,2]=1..", "k=9223372036854775807", "f32[2,2]=0"},
    };
    wf_ref_cases_run(cases, WF_COUNT_OF(cases));
}

static void indexing(void **state)
{
    (void)state;
    static const wf_ref_case_t cases[] = {
        {"Gather", "f32[3,2]=1.. i64[2]=2,-3", "", "f32[2,2]=5,6,1,2"},
        {"Gather", "f32[2,3]=1.. i32[1,2]=-1,0", "axis=1", "f32[2,1,2]=3,1,6,4"},
        {"Gather", "u4[3]=1,2,3 i64[2]=2,0", "", "u4[2]=3,1"},
        {"Gather", "f32[3]=1.. i64[2]=0,3", "", "!index 3 at position 1 is outside [-3, 2] of axis 0"},
        {"Gather", "f32[3]=1.. i64[1]=-4", "", "!index -4"},
        {"Gather", "f32[0,2]= i64[0]=", "", "f32[0,2]="},
        {"Gather", "f32[0]= i64[1]=0", "", "!index 0 at position 0"},
        {"GatherElements", "f32[2,2]=1.. i64[2,2]=0,0,1,-2", "axis=1", "f32[2,2]=1,1,4,3"},
        {"GatherElements", "f32[2,2]=1.. i64[1,2]=1,2", "", "!index 2 at position 1"},
        {"GatherND", "f32[2,2]=1.. i64[2,2]=0,0,1,-1", "", "f32[2]=1,4"},
        {"GatherND", "f32[2,2]=1.. i64[1,1]=1", "", "f32[1,2]=3,4"},
        {"GatherND", "f32[2,2,1]=1.. i64[2,1]=1,0", "batch_dims=1", "f32[2,1]=2,3"},
        {"GatherND", "f32[2,2]=1.. i64[1,2]=0,2", "", "!index 2 at position 1 is outside [-2, 1] of axis 1"},
        {"ScatterElements", "f32[1,4]=1.. i64[1,2]=1,-1 f32[1,2]=9,8", "axis=1", "f32[1,4]=1,9,3,8"},
        {"ScatterElements", "f32[3]=1.. i64[2]=1,1 f32[2]=10,20", "reduction=add", "f32[3]=1,32,3"},
        {"ScatterElements", "i8[2]=2,3 i64[2]=0,0 i8[2]=5,-7", "reduction=mul", "i8[2]=-70,3"},
        {"ScatterElements", "f32[2]=2,3 i64[2]=0,1 f32[2]=1,4", "reduction=max", "f32[2]=2,4"},
        {"ScatterElements", "u64[2]=2,3 i64[2]=0,1 u64[2]=1,4", "reduction=min", "u64[2]=1,3"},
        {"ScatterElements", "f32[2]=2,3 i64[1]=2 f32[1]=1", "", "!index 2 at position 0"},
        {"ScatterND", "f32[3,2]=1.. i64[1,1]=-1 f32[1,2]=9,8", "", "f32[3,2]=1,2,3,4,9,8"},
        {"ScatterND", "f32[3]=1.. i64[2,1]=0,0 f32[2]=5,6", "reduction=add", "f32[3]=12,2,3"},
        {"ScatterND", "f32[3]=1.. i64[1,1]=3 f32[1]=5", "", "!index 3"},
        {"OneHot", "i64[3]=0,-1,5 i64[]=3 f32[2]=0,1", "", "f32[3,3]=1,0,0,0,0,1,0,0,0"},
        {"OneHot", "f32[2]=1,0 i64[]=2 i32[2]=5,7", "axis=0", "i32[2,2]=5,7,7,5"},
        {"TopK", "f32[2]=1,2 i64[1]=1", "", "f32[1]=2 i64[1]=1"},
    };
    wf_ref_cases_run(cases, WF_COUNT_OF(cases));
}

static void generation(void **state)
{
    (void)state;
    static const wf_ref_case_t cases[] = {
        {"Shape", "f32[2,0,3]=", "", "i64[3]=2,0,3"},
        {"Shape", "f32[2,4,3]=0", "start=-2 end=-1", "i64[1]=4"},
        {"Size", "f32[2,3]=0", "", "i64[]=6"},
        {"ConstantOfShape", "i64[2]=1,2", "", "f32[1,2]=0"},
        {"ConstantOfShape", "i64[1]=2", "value=i8[1]=-3", "i8[2]=-3"},
        {"Constant", "", "value=f32[2]=1,2", "f32[2]=1,2"},
        {"Constant", "", "value_ints=4,5", "i64[2]=4,5"},
        {"Constant", "", "value_float=0.5", "f32[]=0.5"},
        {"Range", "f32[]=1 f32[]=2 f32[]=0.25", "", "f32[4]=1,1.25,1.5,1.75"},
        {"Range", "i64[]=3 i64[]=-4 i64[]=-3", "", "i64[3]=3,0,-3"},
        {"EyeLike", "i32[2,3]=0", "k=1", "i32[2,3]=0,1,0,0,0,1"},
        {"EyeLike", "i32[2,2]=0", "dtype=1 k=-1", "f32[2,2]=0,0,1,0"},
        {"Dropout", "f32[2]=1,2", "", "f32[2]=1,2 bool[2]=1"},
        {"Dropout", "f32[2]=1,2 f32[]=0.5 bool[]=1", "", "?random"},
    };
    wf_ref_cases_run(cases, WF_COUNT_OF(cases));
}

static void resizing(void **state)
{
    (void)state;
    static const wf_ref_case_t cases[] = {
        {"Resize", "f32[2]=1,2 _ f32[1]=2", "", "f32[4]=1,1,2,2"},
        {"Resize", "i64[3]=1,2,4611686018427387905 _ _ i64[1]=2", "", "i64[2]=1,4611686018427387905"},
        {"Resize", "f32[4]=1.. _ f32[1]=0.5", "mode=linear", "f32[2]=1.5,3.5"},
        {"Resize", "f32[2]=0,4 _ _ i64[1]=4", "mode=linear", "f32[4]=0,1,3,4"},
        {"Resize", "f32[2]=0,3 _ _ i64[1]=4", "mode=linear coordinate_transformation_mode=align_corners",
         "f32[4]=0,1,2,3"},
        {"Resize", "f32[2]=0,4 _ _ i64[1]=4", "mode=linear coordinate_transformation_mode=asymmetric",
         "f32[4]=0,2,4,4"},
        {"Resize", "f32[3]=1,5,9 _ _ i64[1]=1",
         "mode=linear coordinate_transformation_mode=pytorch_half_pixel", "f32[1]=1"},
        {"Resize", "f32[5]=1.. _ f32[1]=0.5",
         "mode=linear coordinate_transformation_mode=half_pixel_symmetric", "f32[2]=2,4"},
        /* x at 0.5, 1.5, 2.5, 3.5 of [0, 3]; outside is 9 */
        {"Resize", "f32[4]=0,1,2,3 f32[2]=0.5,1.5 _ i64[1]=3",
         "mode=linear coordinate_transformation_mode=tf_crop_and_resize extrapolation_value=9",
         "f32[3]=1.5,3,9"},
        {"Resize", "f32[4]=1.. _ _ i64[1]=2", "mode=linear antialias=1", "f32[2]=1.625,3.375"},
        {"Resize", "f32[2,2]=1.. _ _ i64[2]=4,4", "keep_aspect_ratio_policy=not_larger axes=0,1",
         "f32[4,4]=1,1,2,2,1,1,2,2,3,3,4,4,3,3,4,4"},
        {"Resize", "f32[2,4]=1.. _ _ i64[2]=1,1", "keep_aspect_ratio_policy=not_smaller nearest_mode=floor",
         "f32[1,2]=1,3"},
        {"Resize", "f32[1,4]=1.. _ _ i64[1]=2", "axes=1 nearest_mode=ceil", "f32[1,2]=2,4"},
        {"Resize", "f32[4]=1.. _ _ i64[1]=2", "nearest_mode=round_prefer_floor", "f32[2]=1,3"},
        {"Resize", "f32[4]=1.. _ _ i64[1]=2", "nearest_mode=round_prefer_ceil", "f32[2]=2,4"},
        /* the cubic kernel at distance 1/2: (-3, 19, 19, -3) / 32 */
        {"Resize", "f32[4]=0,32,64,0 _ _ i64[1]=2", "mode=cubic exclude_outside=0", "f32[2]=13,35"},
        {"Resize", "f32[4]=0,32,64,0 _ _ i64[1]=2", "mode=cubic exclude_outside=1", "f32[2]=11.885714,32"},
        {"Resize", "u8[2]=0,255 _ _ i64[1]=3", "mode=linear", "u8[3]=0,128,255"},
        {"Resize", "f32[2]=1,2 _ _ i64[1]=0", "", "f32[0]="},
    };
    wf_ref_cases_run(cases, WF_COUNT_OF(cases));
}

static void quantisation(void **state)
{
    (void)state;
    static const wf_ref_case_t cases[] = {
        {"QuantizeLinear", "f32[6]=0,1,3,-1,1000,-1000 f32[]=2 u8[]=128", "", "u8[6]=128,128,130,128,255,0"},
        {"QuantizeLinear", "f32[3]=1,3,5 f32[]=2", "", "u8[3]=0,2,2"},
        {"QuantizeLinear", "f32[2,2]=1,2,3,4 f32[2]=1,0.5 i8[2]=0,10", "", "i8[2,2]=1,14,3,18"},
        {"QuantizeLinear", "f32[2,2]=1,2,3,4 f32[2]=1,0.5 i8[2]=0,10", "axis=0", "i8[2,2]=1,2,16,18"},
        {"QuantizeLinear", "f32[1,3]=1,2,3 f32[1,2]=1,0.5", "block_size=2", "u8[1,3]=1,2,6"},
        {"QuantizeLinear", "f32[2]=20,-20 f32[]=1 i4[]=0", "", "i4[2]=7,-8"},
        {"QuantizeLinear", "f32[2]=3,500 f32[]=1 f8e4m3fn[]=0", "", "f8e4m3fn[2]=3,448"},
        {"QuantizeLinear", "f32[2]=1e6,nan f32[]=1 i16[]=5", "", "i16[2]=32767,5"},
        {"QuantizeLinear", "i32[2]=7,-7 f32[]=2 i8[]=0", "", "i8[2]=4,-4"},
        /* in f16 the quotient 2.5001 is 2.5 and rounds to 2 */
        {"QuantizeLinear", "f32[1]=2.5001 f32[]=1", "precision=10", "u8[1]=2"},
        {"DequantizeLinear", "u8[3]=0,128,255 f32[]=2 u8[]=128", "", "f32[3]=-256,0,254"},
        {"DequantizeLinear", "i8[2,2]=1,2,3,4 f32[2]=1,0.5 i8[2]=0,1", "axis=1", "f32[2,2]=1,0.5,3,1.5"},
        {"DequantizeLinear", "i4[3]=-8,0,7 f32[2]=1,10", "axis=0 block_size=2", "f32[3]=-8,0,70"},
        {"DequantizeLinear", "i32[1]=-100 f32[]=0.5", "", "f32[1]=-50"},
        {"DequantizeLinear", "u8[1]=3 f16[]=0.5", "", "f16[1]=1.5"},
        {"DequantizeLinear", "f8e5m2[2]=1.5,-3 f32[]=2", "", "f32[2]=3,-6"},
        {"DynamicQuantizeLinear", "f32[3]=0,255,127.5", "", "u8[3]=0,255,128 f32[]=1 u8[]=0"},
        {"DynamicQuantizeLinear", "f32[2]=-255,-51", "", "u8[2]=0,204 f32[]=1 u8[]=255"},
        {"DynamicQuantizeLinear", "f32[2]=0,0", "", "u8[2]=0 f32[]=1 u8[]=0"},
    };
    wf_ref_cases_run(cases, WF_COUNT_OF(cases));
}

/* One hidden unit, weights chosen so that every step can be followed; Affine with alpha 1 and beta 0 is the
 * identity. */
static void recurrence(void **state)
{
    (void)state;
    static const wf_ref_case_t cases[] = {
        {"RNN", "f32[3,1,1]=1,2,3 f32[1,1,1]=1 f32[1,1,1]=2", "activations=Affine",
         "f32[3,1,1,1]=1,4,11 f32[1,1,1]=11"},
        {"RNN", "f32[3,1,1]=1,2,3 f32[1,1,1]=1 f32[1,1,1]=2", "activations=Affine direction=reverse",
         "f32[3,1,1,1]=17,8,3 f32[1,1,1]=17"},
        {"RNN", "f32[2,1,1]=1,2 f32[2,1,1]=1,10 f32[2,1,1]=1 f32[2,2]=0.5,0.25,0,0 _ f32[2,1,1]=4,0",
         "activations=Affine,Affine direction=bidirectional",
         "f32[2,2,1,1]=5.75,30,8.5,20 f32[2,1,1]=8.5,30"},
        {"RNN", "f32[2,2,1]=1,2,3,4 f32[1,1,1]=1 f32[1,1,1]=1 _ i32[2]=2,1", "activations=Affine",
         "f32[2,1,2,1]=1,2,4,0 f32[1,2,1]=4,2"},
        {"RNN", "f32[2,2,1]=1,2,3,4 f32[1,1,1]=1 f32[1,1,1]=1 _ i32[2]=2,1",
         "activations=Affine direction=reverse", "f32[2,1,2,1]=4,2,3,0 f32[1,2,1]=4,2"},
        {"RNN", "f32[1,2,1]=1,2 f32[1,1,1]=1 f32[1,1,1]=1", "activations=Affine layout=1",
         "f32[1,2,1,1]=1,3 f32[1,1,1]=3"},
        {"RNN", "f32[1,1,1]=5 f32[1,1,1]=1 f32[1,1,1]=1", "activations=Affine clip=2", "f32[1,1,1,1]=2 _"},
        {"RNN", "f32[1,1,1]=2 f32[1,1,1]=1 f32[1,1,1]=1",
         "activations=ScaledTanh activation_alpha=3 activation_beta=0.25", "f32[1,1,1,1]=1.3863515 _"},
        {"RNN", "f32[1,1,1]=-2 f32[1,1,1]=1 f32[1,1,1]=1", "activations=LeakyRelu", "f32[1,1,1,1]=-0.02 _"},
        {"RNN", "f32[1,1,1]=2 f32[1,1,1]=1 f32[1,1,1]=1", "", "f32[1,1,1,1]=0.96402758 _"},
        {"RNN", "f32[1,1,1]=2 f32[1,1,1]=1 f32[1,1,1]=1 _ i32[1]=2", "", "!sequence length 2 of row 0"},
        /* z = 0.5 + x, r = 2, h~ = x + r h: h = (1 - z) h~ + z h */
        {"GRU", "f32[2,1,1]=1,2 f32[1,3,1]=1,0,1 f32[1,3,1]=0,0,1 f32[1,6]=0.5,2,0,0,0,0",
         "activations=Affine,Affine", "f32[2,1,1,1]=-0.5,-2.75 f32[1,1,1]=-2.75"},
        /* linear before reset: h~ = x + r (h + 3) */
        {"GRU", "f32[1,1,1]=1 f32[1,3,1]=0,0,1 f32[1,3,1]=0,0,1 f32[1,6]=0.5,2,0,0,0,3 _ f32[1,1,1]=4",
         "activations=Affine,Affine linear_before_reset=1", "f32[1,1,1,1]=9.5 _"},
        {"GRU", "f32[1,1,1]=1 f32[1,3,1]=0,0,1 f32[1,3,1]=0,0,1 f32[1,6]=0.5,2,0,0,0,3 _ f32[1,1,1]=4",
         "activations=Affine,Affine", "f32[1,1,1,1]=8 _"},
        /* gates i = x, o = 2, f = 0.5, c~ = x + h: c = f c + i c~; h = o c */
        {"LSTM", "f32[2,1,1]=1,2 f32[1,4,1]=1,0,0,1 f32[1,4,1]=0,0,0,1 f32[1,8]=0,2,0.5,0,0,0,0,0",
         "activations=Affine,Affine,Affine", "f32[2,1,1,1]=2,17 f32[1,1,1]=17 f32[1,1,1]=8.5"},
        /* input_forget: f = 1 - i */
        {"LSTM", "f32[1,1,1]=0.25 f32[1,4,1]=1,0,0,1 f32[1,4,1]=0 f32[1,8]=0,2,9,0,0,0,0,0 _ _ f32[1,1,1]=4",
         "activations=Affine,Affine,Affine input_forget=1", "_ _ f32[1,1,1]=3.0625"},
        /* peepholes i 1, o 10, f 2 on c = 3: i = 3, f = 6, c~ = 1: c = 21; o = 210; h = 4410 */
        {"LSTM", "f32[1,1,1]=1 f32[1,4,1]=0,0,0,1 f32[1,4,1]=0 _ _ _ f32[1,1,1]=3 f32[1,3]=1,10,2",
         "activations=Affine,Affine,Affine", "f32[1,1,1,1]=4410 _ f32[1,1,1]=21"},
        {"LSTM", "f32[1,1,1]=0 f32[1,4,1]=0 f32[1,4,1]=0 _ _ _ f32[1,1,1]=2", "",
         "_ f32[1,1,1]=0.38079708 f32[1,1,1]=1"},
    };
    wf_ref_cases_run(cases, WF_COUNT_OF(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(movement), cmocka_unit_test(indexing),     cmocka_unit_test(generation),
        cmocka_unit_test(resizing), cmocka_unit_test(quantisation), cmocka_unit_test(recurrence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
