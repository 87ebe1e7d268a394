/*
 * What a custom node of a pipeline implements: six functions in a shared library.
 *
 *     cc  -shared -fPIC -o libmy_node.so my_node.c
 *     c++ -shared -fPIC -o libmy_node.so my_node.cpp
 *
 * The interface is C, so a node in C++ lets no exception out of these functions.
 *
 * Each function but `release` and `deinitialize` returns 0 if it did its work. If one returns
 * anything else, it has freed whatever it had allocated in that call: the server frees nothing.
 *
 * Memory. Arguments belong to the server and are valid during the call; a node neither writes to
 * them nor frees them. Whatever a node returns belongs to the node and comes back by `release`,
 * each buffer once, from any thread: the `dims` of each entry, the `data` of each tensor, and the
 * array itself. All `dims` come back before the array; `data` may come back much later, when the
 * last user of the tensor is done, but before `deinitialize`. Names never come back: they are
 * constants of the library.
 *
 * Threads. `initialize` is the first call for a node of a pipeline and `deinitialize` the last. In
 * between any of the others may run on several threads at once with the same handle.
 */
#ifndef CUSTOM_NODE_INTERFACE_H
#define CUSTOM_NODE_INTERFACE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The type of a tensor's elements. Inputs of other types (BOOL, UINT32, UINT64, BF16, strings) come
 * as UNSPECIFIED; an output has one of the others. */
typedef enum {
    UNSPECIFIED = 0,
    FP32 = 1,
    FP16 = 2,
    U8 = 3,
    I8 = 4,
    I16 = 5,
    U16 = 6,
    I32 = 7,
    FP64 = 8,
    I64 = 9
} CustomNodeTensorPrecision;

/* A tensor with its elements. */
struct CustomNodeTensor {
    const char* name;
    /* Little endian, row by row, without gaps. In an output never NULL, also if there are none. */
    uint8_t* data;
    /* The product of the dimensions, times the bytes of one element. */
    uint64_t dataBytes;
    uint64_t* dims;
    /* 0 for a scalar, which has one element. */
    uint64_t dimsCount;
    CustomNodeTensorPrecision precision;
};

/* What is known of a tensor before there is one. */
struct CustomNodeTensorInfo {
    /* An entry without a name (NULL) is not looked at. */
    const char* name;
    /* 0 is a dimension that may have any length. */
    uint64_t* dims;
    uint64_t dimsCount;
    CustomNodeTensorPrecision precision;
};

/* One of the node's `params` in the configuration. They stay valid until `deinitialize`, in no
 * particular order; without any the array is NULL. */
struct CustomNodeParam {
    const char* key;
    const char* value;
};

#ifndef __cplusplus
typedef struct CustomNodeTensor CustomNodeTensor;
typedef struct CustomNodeTensorInfo CustomNodeTensorInfo;
typedef struct CustomNodeParam CustomNodeParam;
#endif

/* Prepares a node. `*handle` is NULL; whatever the node puts there is passed to every other call. */
int initialize(void** handle, const struct CustomNodeParam* params, int paramsCount);

/* Ends a node that was prepared, once. */
int deinitialize(void* handle);

/* Computes outputs from inputs. The inputs are in no particular order, so look for their names. */
int execute(const struct CustomNodeTensor* inputs, int inputsCount,
            struct CustomNodeTensor** outputs, int* outputsCount,
            const struct CustomNodeParam* params, int paramsCount, void* handle);

/* Describes the inputs: those that the pipeline has to connect. */
int getInputsInfo(struct CustomNodeTensorInfo** info, int* infoCount,
                  const struct CustomNodeParam* params, int paramsCount, void* handle);

/* Describes the outputs. */
int getOutputsInfo(struct CustomNodeTensorInfo** info, int* infoCount,
                   const struct CustomNodeParam* params, int paramsCount, void* handle);

/* Takes back a buffer that an earlier call returned. */
int release(void* ptr, void* handle);

#ifdef __cplusplus
}
#endif

#endif
