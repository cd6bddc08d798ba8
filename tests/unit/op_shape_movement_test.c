/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of movement and indexing, written by hand from the ONNX operator texts. Parameters are tried both as
 * attributes (canonical form) and as inputs with and without known values. */
#include "base/compiler.h"
#include "support/cmocka_all.h"
#include "support/op_case.h"

static void test_reshape(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"Reshape", "f32[2,3,4] i64[2]=4,6", "", "f32[4,6]"},
        {"Reshape", "f32[2,3,4]", "shape=4,6", "f32[4,6]"},
        {"Reshape", "f32[2,3,4] i64[2]", "", "needs 1"},
        {"Reshape", "f32[2,3,4] i64[2]=0,-1", "", "f32[2,12]"},
        {"Reshape", "f32[2,3,4] i64[3]=-1,0,2", "", "f32[4,3,2]"},
        {"Reshape", "f32[2,3,4]", "shape=0,0,0", "f32[2,3,4]"},
        {"Reshape", "f32[1]", "shape=", "f32[]"},
        {"Reshape", "f32[1] i64[0]=", "", "f32[]"},
        {"Reshape", "f32[]", "shape=1,1", "f32[1,1]"},
        {"Reshape", "f32[]", "shape=-1", "f32[1]"},
        {"Reshape", "f32[0,3,4]", "shape=3,4,0 allowzero=1", "f32[3,4,0]"},
        {"Reshape", "f32[0,3]", "shape=0,-1", "!-1 of the shape cannot be inferred"},
        {"Reshape", "f32[0,3]", "shape=3,-1", "f32[3,0]"},
        {"Reshape", "f32[0,3]", "shape=0,-1 allowzero=1", "!cannot be inferred"},
        {"Reshape", "f32[2,3]", "shape=2,3,0", "!the shape has 0 in place 2"},
        {"Reshape", "f32[2,3,4]", "shape=-1,2,-1", "!-1 in places 0 and 2"},
        {"Reshape", "f32[2,3,4]", "shape=5,-1", "!cannot be inferred: 24 elements, the other dims make 5"},
        {"Reshape", "f32[2,3,4]", "shape=5,5", "!different numbers of elements"},
        {"Reshape", "f32[2,3,4]", "shape=-2,12", "!the shape has -2 in place 0"},
        {"Reshape", "f32[2,3,4] i64[1,2]=4,6", "", "!input 1, shape, is i64[1,2]"},
        {"Reshape", "f32[2,3,4] f32[2]=4,6", "", "!expected a list of i64 or i32"},
        {"Reshape", "f32[1]", "shape=1,1,1,1,1,1,1,1,1", "?rank 9"},
        {"Reshape", "f32[1]", "shape=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "!17 values"},
        {"Reshape", "f32[4]", "shape=4294967296,4294967296,4294967296", "#63 bits"},
        {"Reshape", "f32[4]", "shape=9223372036854775807,-1", "!cannot be inferred"},
        {"Reshape", "f32[4]", "", "!input 1 is missing"},
        {"Reshape", "f32[4] i64[1]=4", "shape=4", "!input 1 is given although an attribute holds its value"},
        {"Flatten", "f32[2,3,4,5]", "", "f32[2,60]"},
        {"Flatten", "f32[2,3,4,5]", "axis=0", "f32[1,120]"},
        {"Flatten", "f32[2,3,4,5]", "axis=4", "f32[120,1]"},
        {"Flatten", "f32[2,3,4,5]", "axis=-1", "f32[24,5]"},
        {"Flatten", "f32[2,3,4,5]", "axis=-4", "f32[1,120]"},
        {"Flatten", "f32[2,0,4]", "axis=1", "f32[2,0]"},
        {"Flatten", "f32[]", "axis=0", "f32[1,1]"},
        {"Flatten", "f32[2,3]", "axis=3", "!axis 3 is out of range"},
        {"Flatten", "f32[2,3]", "axis=-3", "!axis -3 is out of range"},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

static void test_squeeze(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"Squeeze", "f32[1,3,1,5]", "", "f32[3,5]"},
        {"Squeeze", "f32[1,3,1,5] i64[1]=0", "", "f32[3,1,5]"},
        {"Squeeze", "f32[1,3,1,5]", "axes=-2,0", "f32[3,5]"},
        {"Squeeze", "f32[1,3,1,5]", "axes=", "f32[1,3,1,5]"},
        {"Squeeze", "f32[1,3,1,5] i64[2]", "", "needs 1"},
        {"Squeeze", "f32[1,3,1,5]", "axes=1", "!axis 1 to squeeze is 3, not 1"},
        {"Squeeze", "f32[1,3]", "axes=2", "!axis 2 is out of range for rank 2"},
        {"Squeeze", "f32[1,1]", "axes=0,-2", "!axis -2 is given twice"},
        {"Squeeze", "f32[]", "", "f32[]"},
        {"Unsqueeze", "f32[3,4]", "axes=0", "f32[1,3,4]"},
        {"Unsqueeze", "f32[3,4] i64[2]=1,-1", "", "f32[3,1,4,1]"},
        {"Unsqueeze", "f32[3,4]", "axes=4,0,2", "f32[1,3,1,4,1]"},
        {"Unsqueeze", "f32[]", "axes=0", "f32[1]"},
        {"Unsqueeze", "f32[3] i64[1]", "", "needs 1"},
        {"Unsqueeze", "f32[3]", "axes=2", "!axis 2 is out of range for rank 2"},
        {"Unsqueeze", "f32[3]", "axes=0,-3", "!given twice"},
        {"Unsqueeze", "f32[1,2,3,4,5,6,7,8]", "axes=0", "?rank 9"},
        {"Unsqueeze", "f32[3]", "", "!input 1 is missing"},
        {"Transpose", "f32[2,3,4]", "", "f32[4,3,2]"},
        {"Transpose", "f32[2,3,4]", "perm=1,0,2", "f32[3,2,4]"},
        {"Transpose", "f32[2,3,4]", "perm=-1,0,1", "f32[4,2,3]"},
        {"Transpose", "f32[]", "", "f32[]"},
        {"Transpose", "f32[2,3,4]", "perm=1,0", "!perm has 2 values for rank 3"},
        {"Transpose", "f32[2,3,4]", "perm=1,0,1", "!given twice"},
        {"Transpose", "f32[2,3,4]", "perm=1,0,3", "!axis 3 is out of range"},
        {"DepthToSpace", "f32[1,8,2,3]", "blocksize=2", "f32[1,2,4,6]"},
        {"DepthToSpace", "f32[1,8,2,3]", "blocksize=3", "!does not divide into blocks of 3"},
        {"DepthToSpace", "f32[1,8,2,3]", "blocksize=0", "!blocksize is 0"},
        {"DepthToSpace", "f32[1,8,2,3]", "blocksize=4294967296", "!blocksize is 4294967296"},
        {"DepthToSpace", "f32[8,2,3]", "blocksize=2", "!expected rank 4"},
        {"SpaceToDepth", "f32[1,2,4,6]", "blocksize=2 mode=CRD", "f32[1,8,2,3]"},
        {"SpaceToDepth", "f32[1,2,4,5]", "blocksize=2", "!does not divide"},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

static void test_join_and_cut(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"Concat", "f32[2,3] f32[4,3] f32[0,3]", "axis=0", "f32[6,3]"},
        {"Concat", "f32[2,3] f32[2,1]", "axis=-1", "f32[2,4]"},
        {"Concat", "f32[2,3]", "axis=1", "f32[2,3]"},
        {"Concat", "f32[2,3] f32[4,4]", "axis=0", "!input 1 is f32[4,4], expected f32[4,3]"},
        {"Concat", "f32[2,3] f32[2]", "axis=0", "!input 1 is f32[2], expected f32[2,3]"},
        {"Concat", "f32[2,3] f64[2,3]", "axis=0", "!input 1 is of type f64"},
        {"Concat", "f32[2,3] f32[2,3]", "axis=2", "!axis 2 is out of range"},
        {"Concat", "f32[] f32[]", "axis=0", "!axis 0 is out of range for rank 0"},
        {"Concat", "f32[2,3] f32[2,3]", "", "!attribute axis is missing"},
        {"Concat", "u8[9223372036854775807] u8[1]", "axis=0", "#63 bits"},
        {"Split", "f32[6,2]", "num_outputs=3", "f32[2,2] f32[2,2] f32[2,2]"},
        {"Split", "f32[7,2]", "num_outputs=3", "f32[3,2] f32[3,2] f32[1,2]"},
        {"Split", "f32[6,2] i64[2]=2,4", "", "f32[2,2] f32[4,2]"},
        {"Split", "f32[2,6]", "axis=1 split=2,4", "f32[2,2] f32[2,4]"},
        {"Split", "f32[2,6]", "axis=-1 split=6,0", "f32[2,6] f32[2,0]"},
        {"Split", "f32[0]", "split=0,0,0", "f32[0] f32[0] f32[0]"},
        {"Split", "f32[6,2] i64[2]", "", "needs 1"},
        {"Split", "f32[6,2]", "split=2,3", "!2 parts are asked for, the node has 1 outputs"},
        {"Split", "f32[6,2]", "", "f32[3,2] f32[3,2]"},
        {"Split", "f32[17]", "split=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1",
         "f32[1] f32[1] f32[1] f32[1] f32[1] f32[1] f32[1] f32[1] f32[1] f32[1] f32[1] f32[1] f32[1] f32[1] "
         "f32[1] "
         "f32[1] f32[1]"},
        {"Split", "f32[6]", "split=7", "!part 0 of an axis of 6 would be 7"},
        {"Split", "f32[6]", "split=5", "!the parts leave 1 of an axis of 6 over"},
        {"Split", "f32[6]", "split=-1", "!would be -1"},
        {"Split", "f32[6]", "split=6 num_outputs=1", "!both split and num_outputs"},
        {"Split", "f32[]", "num_outputs=1", "!axis 0 is out of range for rank 0"},
        {"Pad", "f32[3,2] i64[4]=0,2,0,1", "", "f32[3,5]"},
        {"Pad", "f32[3,2]", "pads=0,2,0,1", "f32[3,5]"},
        {"Pad", "f32[3,2] i64[4] f32[]", "", "needs 1"},
        {"Pad", "f32[3,2] i64[2]=2,1 f32[] i64[1]=-1", "", "f32[3,5]"},
        {"Pad", "f32[3,2] _ f32[]", "pads=2,1 axes=0", "f32[6,2]"},
        {"Pad", "f32[3,2]", "pads=-1,0,-1,0", "f32[1,2]"},
        {"Pad", "f32[3,2]", "pads=-2,0,-2,0", "!pads of -2 and -2 take more than axis 0 has"},
        {"Pad", "f32[3,2]", "pads=5,5,5,5 mode=wrap", "f32[13,12]"},
        {"Pad", "f32[0,2]", "pads=1,0,0,0", "f32[1,2]"},
        {"Pad", "f32[0,2]", "pads=1,0,0,0 mode=edge", "!axis 0 is empty"},
        {"Pad", "f32[3,2]", "pads=1,1", "!pads has 2 values for 2 axes"},
        {"Pad", "f32[3,2]", "pads=1,1,1,1 axes=0,0", "!given twice"},
        {"Pad", "f32[3,2] i64[4]=0,0,0,0 i32[]", "", "!input 2 is of type i32"},
        {"Pad", "f32[3,2] i64[4]=0,0,0,0 f32[2]", "", "!expected one element"},
        {"Pad", "f32[3]", "pads=9223372036854775807,0", "#63 bits"},
        {"Pad", "f32[3]", "pads=1,0 mode=mirror", "!mode is \"mirror\""},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

static void test_slice(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"Slice", "f32[20,10,5] i64[2]=0,0 i64[2]=3,10", "", "f32[3,10,5]"},
        {"Slice", "f32[20,10,5]", "starts=0,0 ends=3,10 axes=0,1 steps=1,1", "f32[3,10,5]"},
        {"Slice", "f32[20,10,5] i64[1]=1 i64[1]=1000 i64[1]=1", "", "f32[20,9,5]"},
        {"Slice", "f32[20,10,5] i32[1]=0 i32[1]=-1 i32[1]=-2", "", "f32[20,9,5]"},
        {"Slice", "f32[20,10,5] i64[1]=1000 i64[1]=1000 i64[1]=1", "", "f32[20,0,5]"},
        {"Slice", "f32[20,10,5]", "starts=20,10,4 ends=0,0,1 axes=0,1,2 steps=-1,-3,-2", "f32[19,3,2]"},
        {"Slice", "f32[4]", "starts=-1 ends=-9223372036854775808 steps=-1", "f32[4]"},
        {"Slice", "f32[4]", "starts=3 ends=-5 steps=-1", "f32[4]"},
        {"Slice", "f32[4]", "starts=3 ends=-1 steps=-1", "f32[0]"},
        {"Slice", "f32[4]", "starts=9223372036854775807 ends=-9223372036854775808 steps=-2", "f32[2]"},
        {"Slice", "f32[4]", "starts=0 ends=9223372036854775807 steps=9223372036854775807", "f32[1]"},
        {"Slice", "f32[4]", "starts=3 ends=-9223372036854775808 steps=-9223372036854775808", "f32[1]"},
        {"Slice", "f32[4]", "starts=0 ends=9223372036854775807 steps=-1", "f32[0]"},
        /* A start before the first element is the first one, also backward. */
        {"Slice", "f32[4]", "starts=-10 ends=-9223372036854775808 steps=-1", "f32[1]"},
        {"Slice", "f32[0]", "starts=0 ends=5 steps=-1", "f32[0]"},
        {"Slice", "f32[0]", "starts=0 ends=5", "f32[0]"},
        {"Slice", "f32[5]", "starts=0 ends=5 steps=2", "f32[3]"},
        {"Slice", "f32[5] i64[1] i64[1]=5", "", "needs 1"},
        {"Slice", "f32[5] i64[1]=0 i64[1]", "", "needs 2"},
        {"Slice", "f32[5] i64[1]=0 i64[1]=5 _ i64[1]", "", "needs 4"},
        {"Slice", "f32[5]", "starts=0 ends=5 steps=0", "!the step for axis 0 is 0"},
        {"Slice", "f32[5]", "starts=0 ends=5 axes=1", "!axis 1 is out of range"},
        {"Slice", "f32[5,5]", "starts=0,0 ends=5,5 axes=0,-2", "!given twice"},
        {"Slice", "f32[5]", "starts=0 ends=5,6", "!ends has 2 values, starts has 1"},
        {"Slice", "f32[5]", "starts=0,0 ends=5,6", "!starts has 2 values for rank 1"},
        {"Slice", "f32[5]", "starts=0", "!input 2 is missing"},
        {"Slice", "f32[]", "starts= ends=", "f32[]"},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

static void test_index(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"Gather", "f32[5,4,3,2] i64[3]", "", "f32[3,4,3,2]"},
        {"Gather", "f32[5,4,3,2] i32[2,7]", "axis=1", "f32[5,2,7,3,2]"},
        {"Gather", "f32[5,4] i64[]", "axis=-1", "f32[5]"},
        {"Gather", "f32[5,4] i64[0]", "axis=1", "f32[5,0]"},
        {"Gather", "f32[1,1,1,1,1] i64[1,1,1,1,1]", "", "?rank 9"},
        {"Gather", "f32[5,4] f32[3]", "", "!input 1 is of type f32, expected i64 or i32"},
        {"Gather", "f32[] i64[3]", "", "!axis 0 is out of range for rank 0"},
        {"GatherElements", "f32[3,3] i64[2,3]", "axis=0", "f32[2,3]"},
        {"GatherElements", "f32[3,3] i64[7,2]", "axis=0", "f32[7,2]"},
        {"GatherElements", "f32[3,3] i64[2,4]", "axis=0", "!do not lie within the data"},
        {"GatherElements", "f32[3,3] i64[3]", "axis=0", "!do not lie within the data"},
        {"GatherND", "f32[2,2] i64[2,2]", "", "f32[2]"},
        {"GatherND", "f32[2,2] i64[2,1]", "", "f32[2,2]"},
        {"GatherND", "f32[2,2,2] i64[2,1,2]", "", "f32[2,1,2]"},
        {"GatherND", "f32[2,2,2] i64[2,1]", "batch_dims=1", "f32[2,2]"},
        {"GatherND", "f32[2,2] i64[2,3]", "", "!the last axis of the indices is 3, the data has 2"},
        {"GatherND", "f32[2,2] i64[2,0]", "", "!the last axis of the indices is 0"},
        {"GatherND", "f32[2,2,2] i64[3,1]", "batch_dims=1",
         "!batch axis 0 is 2 in the data, 3 in the indices"},
        {"GatherND", "f32[2,2] i64[2,1]", "batch_dims=2", "!batch_dims is 2"},
        {"GatherND", "f32[2,2] i64[2,1]", "batch_dims=-1", "!batch_dims is -1"},
        {"ScatterElements", "f32[3,3] i64[2,3] f32[2,3]", "reduction=add", "f32[3,3]"},
        {"ScatterElements", "f32[3,3] i64[2,3] f32[3,3]", "", "!input 2 is f32[3,3], expected f32[2,3]"},
        {"ScatterElements", "f32[3,3] i64[2,3] f64[2,3]", "", "!input 2 is of type f64"},
        {"ScatterElements", "f32[3,3] i64[2,3] f32[2,3]", "reduction=avg", "!reduction is \"avg\""},
        {"ScatterND", "f32[8] i64[4,1] f32[4]", "", "f32[8]"},
        {"ScatterND", "f32[4,4,4] i64[2,1] f32[2,4,4]", "", "f32[4,4,4]"},
        {"ScatterND", "f32[4,4,4] i64[2,1] f32[2,4]", "", "!input 2 is f32[2,4], expected f32[2,4,4]"},
        {"ScatterND", "f32[] i64[2,1] f32[2]", "", "!expected a rank from 1"},
        {"OneHot", "i64[3] i64[]=12 f32[2]", "", "f32[3,12]"},
        {"OneHot", "i64[3,4] f32[1]=5.5 i32[2]", "axis=1", "i32[3,5,4]"},
        {"OneHot", "i64[3,4] _ f32[2]", "axis=-3 depth=7", "f32[7,3,4]"},
        {"OneHot", "i64[3] i64[] f32[2]", "", "needs 1"},
        {"OneHot", "i64[3] i64[]=-1 f32[2]", "", "!the depth is not a number that can be a size"},
        {"OneHot", "i64[3] f32[]=nan f32[2]", "", "!the depth is not a number"},
        {"OneHot", "i64[3] i64[]=2 f32[3]", "", "!input 2 is f32[3], expected f32[2]"},
        {"OneHot", "i64[3] i64[]=2 f32[2]", "axis=2", "!axis 2 is out of range for rank 2"},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

static void test_repeat_and_create(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"Expand", "f32[3,1] i64[3]=2,1,6", "", "f32[2,3,6]"},
        {"Expand", "f32[3,1]", "shape=3,4", "f32[3,4]"},
        {"Expand", "f32[3,1]", "shape=1", "f32[3,1]"},
        {"Expand", "f32[]", "shape=", "f32[]"},
        {"Expand", "f32[3,1] i64[2]", "", "needs 1"},
        {"Expand", "f32[1]", "shape=0", "f32[0]"},
        {"Expand", "f32[3]", "shape=4", "!does not broadcast"},
        {"Expand", "f32[3]", "shape=-1", "!the shape has -1"},
        {"Tile", "f32[2,3] i64[2]=2,3", "", "f32[4,9]"},
        {"Tile", "f32[2,3]", "repeats=0,1", "f32[0,3]"},
        {"Tile", "f32[2,3] i64[2]", "", "needs 1"},
        {"Tile", "f32[2,3]", "repeats=2", "!repeats has 1 values for rank 2"},
        {"Tile", "f32[2]", "repeats=-1", "!repeats has -1"},
        {"Tile", "f32[2]", "repeats=9223372036854775807", "#63 bits"},
        {"Shape", "f32[2,3,4]", "", "i64[3]"},
        {"Shape", "f32[2,3,4]", "start=-1", "i64[1]"},
        {"Shape", "f32[2,3,4]", "end=-1", "i64[2]"},
        {"Shape", "f32[2,3,4]", "start=2 end=1", "i64[0]"},
        {"Shape", "f32[2,3,4]", "start=-9223372036854775808 end=9223372036854775807", "i64[3]"},
        {"Shape", "f32[]", "", "i64[0]"},
        {"Size", "f32[2,3,4]", "", "i64[]"},
        {"ConstantOfShape", "i64[2]=2,3", "", "f32[2,3]"},
        {"ConstantOfShape", "", "shape=2,3 value=i32[1]", "i32[2,3]"},
        {"ConstantOfShape", "i64[0]=", "value=bool[]", "bool[]"},
        {"ConstantOfShape", "i64[2]", "", "needs 0"},
        {"ConstantOfShape", "i64[1]=-1", "", "!the shape has -1"},
        {"ConstantOfShape", "i64[9]=1,1,1,1,1,1,1,1,1", "", "?rank 9"},
        {"ConstantOfShape", "i64[1]=1", "value=f32[2]", "!not one element"},
        {"ConstantOfShape", "i64[2]=4294967296,4294967296", "", "#too large"},
        {"Constant", "", "value_ints=1,2,3", "i64[3]"},
        {"Constant", "", "value_float=1", "f32[]"},
        {"Constant", "", "value=f16[2,2]", "f16[2,2]"},
        {"Constant", "", "value_string=a", "str[]"},
        {"Constant", "", "", "!0 attributes give a value"},
        {"Constant", "", "value_int=1 value_float=2", "!2 attributes give a value"},
        {"Range", "i64[]=3 i64[]=9 i64[]=3", "", "i64[2]"},
        {"Range", "i64[]=10 i64[]=4 i64[]=-2", "", "i64[3]"},
        {"Range", "i64[]=10 i64[]=4 i64[]=2", "", "i64[0]"},
        {"Range", "f32[]=1 f32[]=2 f32[]=0.3", "", "f32[4]"},
        {"Range", "f32[]=0 f32[]=1 f32[]=0.1", "", "f32[10]"},
        {"Range", "i32[]=-2147483648 i32[]=2147483647 i32[]=2147483647", "", "i32[3]"},
        {"Range", "i64[]=-9223372036854775808 i64[]=9223372036854775807 i64[]=9223372036854775807", "",
         "i64[3]"},
        {"Range", "i64[]=9223372036854775807 i64[]=-9223372036854775808 i64[]=-9223372036854775808", "",
         "i64[2]"},
        {"Range", "i64[]=-9223372036854775808 i64[]=9223372036854775807 i64[]=1", "", "#63 bits"},
        {"Range", "i64[]=0 i64[]=1 i64[]=0", "", "!delta is 0"},
        {"Range", "f32[]=0 f32[]=1 f32[]=0", "", "!delta is 0"},
        {"Range", "f32[]=nan f32[]=1 f32[]=1", "", "!not a number"},
        {"Range", "f64[]=0 f64[]=1e300 f64[]=1e-300", "", "#63 bits"},
        {"Range", "i64[]=0 i64[] i64[]=1", "", "needs 1"},
        {"Range", "i64[2]=0,1 i64[]=1 i64[]=1", "", "!expected one element"},
        {"Range", "i64[]=0 i32[]=1 i64[]=1", "", "!input 1 is of type i32"},
        {"EyeLike", "f32[3,4]", "dtype=6", "i32[3,4]"},
        {"EyeLike", "f32[3,4]", "k=1", "f32[3,4]"},
        {"EyeLike", "f32[3]", "", "!expected rank 2"},
        {"EyeLike", "f32[3,4]", "dtype=77", "!dtype is 77"},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

static void test_resize(void **state)
{
    (void)state;
    static const wf_op_case_t cases[] = {
        {"Resize", "f32[1,1,2,2] _ f32[4]=1,1,2,3", "", "f32[1,1,4,6]"},
        {"Resize", "f32[1,1,2,2]", "scales=1,1,2,3", "f32[1,1,4,6]"},
        {"Resize", "f32[1,1,4,4] _ f32[4]=1,1,0.6,0.6", "mode=linear", "f32[1,1,2,2]"},
        {"Resize", "f32[1,1,10,1]", "scales=1,1,0.6,1", "f32[1,1,6,1]"},
        {"Resize", "f32[1,1,2,2] _ _ i64[4]=1,1,7,8", "", "f32[1,1,7,8]"},
        {"Resize", "f32[1,1,2,2] _ f32[0]= i64[4]=1,1,7,8", "", "f32[1,1,7,8]"},
        {"Resize", "f32[1,1,2,2]", "sizes=7,8 axes=3,-2", "f32[1,1,8,7]"},
        {"Resize", "f32[1,1,2,4] _ _ i64[2]=7,8", "axes=2,3 keep_aspect_ratio_policy=not_larger",
         "f32[1,1,4,8]"},
        {"Resize", "f32[1,1,2,4] _ _ i64[2]=7,8", "axes=2,3 keep_aspect_ratio_policy=not_smaller",
         "f32[1,1,7,14]"},
        {"Resize", "f32[1,1,4,4] f32[8]=0,0,0.25,0.5,1,1,0.75,0.75 f32[4]=1,1,2.5,5",
         "mode=linear coordinate_transformation_mode=tf_crop_and_resize", "f32[1,1,5,5]"},
        {"Resize", "f32[1,1,4,4] f32[8] _ i64[4]=1,1,3,3",
         "coordinate_transformation_mode=tf_crop_and_resize", "f32[1,1,3,3]"},
        {"Resize", "f32[1,1,4,4] f32[8] f32[4]=1,1,3,3", "coordinate_transformation_mode=tf_crop_and_resize",
         "needs 1"},
        {"Resize", "f32[1,1,2,2] _ f32[4]", "", "needs 2"},
        {"Resize", "f32[1,1,2,2] _ _ i64[4]", "", "needs 3"},
        {"Resize", "f32[1,1,0,2]", "scales=1,1,2,2", "f32[1,1,0,4]"},
        {"Resize", "f32[1,1,2,2]", "", "!one of scales and sizes must be given"},
        {"Resize", "f32[1,1,2,2]", "scales=1,1,1,1 sizes=1,1,1,1", "!one of scales and sizes"},
        {"Resize", "f32[1,1,2,2]", "scales=2,2", "!for 4 axes"},
        {"Resize", "f32[1,1,2,2]", "scales=1,1,0,2", "!scales has 0 in place 2"},
        {"Resize", "f32[1,1,2,2]", "scales=1,1,nan,2", "!scales has nan"},
        {"Resize", "f32[1,1,2,2]", "scales=1,1,-1,2", "!scales has -1"},
        {"Resize", "f32[1,1,2,2]", "scales=1,1,1e30,2", "!would get the size"},
        {"Resize", "f32[1,1,2,2]", "sizes=1,1,-1,2", "!sizes has -1"},
        {"Resize", "f32[1,1,0,2]", "sizes=4,4 axes=2,3 keep_aspect_ratio_policy=not_larger",
         "!axis 2 is empty"},
        {"Resize", "f32[1,1,2,2]", "sizes=4,4 axes=2,2", "!given twice"},
        {"Resize", "f32[1,2]", "sizes=4,4,4 axes=0,1,1", "!axes has 3 values"},
        {"Resize", "f32[1,1,2,2] _ f64[4]=1,1,2,2", "", "f32[1,1,4,4]"},
    };
    wf_op_cases_run(cases, WF_COUNT_OF(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reshape),      cmocka_unit_test(test_squeeze),
        cmocka_unit_test(test_join_and_cut), cmocka_unit_test(test_slice),
        cmocka_unit_test(test_index),        cmocka_unit_test(test_repeat_and_create),
        cmocka_unit_test(test_resize),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
