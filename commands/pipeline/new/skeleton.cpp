// The custom node `@NAME@`: what a pipeline runs between models.
//
//     make                                  builds lib@NAME@.so
//     ovms pipeline check config.json       sees whether a pipeline can use it
//
// As it stands it multiplies every number of its input by the parameter `scale`. Change `kInput`,
// `kOutput`, the shapes and `compute` to what the node is to do; the rest can stay as it is.
//
// custom_node_interface.h says what a node has to keep to. Three things matter most:
//
//   * Whatever is returned here (the array of outputs, the `dims` and the `data` of each) is the
//     node's own memory. It comes back through `release`, each piece once, perhaps much later and
//     from another thread. Names are never given back, so they have to be constants.
//   * A call that fails returns something other than 0, and has freed what it had allocated.
//   * Several calls may run at once with the same handle. So what `initialize` has made is only
//     read by the others, or has a lock.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "custom_node_interface.h"

namespace {

const char* const kInput = "input";
const char* const kOutput = "output";

// The shapes that a pipeline is checked with: 0 is a dimension that may have any length. Models
// before and after the node have to have as many dimensions.
const uint64_t kShape[] = {0, 0};
const uint64_t kRank = sizeof(kShape) / sizeof(kShape[0]);

// What a node keeps from `initialize` to `deinitialize`: its settings, a table, a pool of buffers.
struct State {
    float scale = 1;
};

// Memory that is returned comes from malloc, so that `release` needs to know nothing but the
// pointer. Until it is returned it is held by one of these, and an early return frees it.
struct Free {
    void operator()(void* memory) const { std::free(memory); }
};
template <typename T>
using Owned = std::unique_ptr<T[], Free>;

template <typename T>
Owned<T> allocate(uint64_t count) {
    // Not 0 bytes: a tensor without elements has a pointer, too.
    return Owned<T>(static_cast<T*>(std::calloc(count > 0 ? count : 1, sizeof(T))));
}

// What a node prints to stderr stands in the server's output.
int fail(const char* what) {
    std::fprintf(stderr, "@NAME@: %s\n", what);
    return 1;
}

// The work itself: `count` numbers in, as many out.
void compute(const float* from, float* to, uint64_t count, const State& state) {
    for (uint64_t i = 0; i < count; i++) {
        to[i] = from[i] * state.scale;
    }
}

// One entry for `getInputsInfo` and `getOutputsInfo`.
int describe(const char* name, CustomNodeTensorInfo** info, int* infoCount) {
    Owned<uint64_t> dims = allocate<uint64_t>(kRank);
    Owned<CustomNodeTensorInfo> entries = allocate<CustomNodeTensorInfo>(1);
    if (!dims || !entries) {
        return fail("out of memory");
    }
    std::memcpy(dims.get(), kShape, sizeof(kShape));
    entries[0].name = name;
    entries[0].dims = dims.release();
    entries[0].dimsCount = kRank;
    entries[0].precision = FP32;
    *info = entries.release();
    *infoCount = 1;
    return 0;
}

}  // namespace

// Once for each node of a pipeline that uses this library. `params` are the texts of the node's
// `params` in the configuration, in no particular order.
int initialize(void** handle, const CustomNodeParam* params, int paramsCount) {
    std::unique_ptr<State> state(new (std::nothrow) State);
    if (!state) {
        return fail("out of memory");
    }
    for (int i = 0; i < paramsCount; i++) {
        if (std::strcmp(params[i].key, "scale") == 0) {
            char* end = nullptr;
            state->scale = std::strtof(params[i].value, &end);
            if (end == params[i].value || *end != '\0') {
                return fail("the parameter `scale` is no number");
            }
        }
    }
    *handle = state.release();
    return 0;
}

// Once, after the last call for the node and after everything has been released.
int deinitialize(void* handle) {
    delete static_cast<State*>(handle);
    return 0;
}

// Once for each request, or for each part of one behind a demultiplexer. The inputs belong to the
// server, and only until this function returns: copy what is needed longer.
int execute(const CustomNodeTensor* inputs, int inputsCount, CustomNodeTensor** outputs,
            int* outputsCount, const CustomNodeParam*, int, void* handle) {
    const State& state = *static_cast<const State*>(handle);
    const CustomNodeTensor* input = nullptr;
    for (int i = 0; i < inputsCount; i++) {
        if (std::strcmp(inputs[i].name, kInput) == 0) {
            input = &inputs[i];
        }
    }
    if (input == nullptr) {
        return fail("the input is missing");
    }
    // What comes from another custom node may differ from what the pipeline was checked with.
    if (input->precision != FP32 || input->dataBytes % sizeof(float) != 0) {
        return fail("the input is not FP32");
    }
    const uint64_t count = input->dataBytes / sizeof(float);

    Owned<CustomNodeTensor> tensors = allocate<CustomNodeTensor>(1);
    Owned<uint64_t> dims = allocate<uint64_t>(input->dimsCount);
    Owned<float> data = allocate<float>(count);
    if (!tensors || !dims || !data) {
        return fail("out of memory");
    }
    // The input need not be aligned for floats, so it is copied before it is computed with.
    if (count > 0) {
        std::memcpy(data.get(), input->data, input->dataBytes);
    }
    if (input->dimsCount > 0) {
        std::memcpy(dims.get(), input->dims, input->dimsCount * sizeof(uint64_t));
    }
    compute(data.get(), data.get(), count, state);

    // Nothing fails from here on: now the memory is handed over.
    tensors[0].name = kOutput;
    tensors[0].data = reinterpret_cast<uint8_t*>(data.release());
    tensors[0].dataBytes = input->dataBytes;
    tensors[0].dims = dims.release();
    tensors[0].dimsCount = input->dimsCount;
    tensors[0].precision = FP32;
    *outputs = tensors.release();
    *outputsCount = 1;
    return 0;
}

// When a pipeline is checked: which inputs it has to connect.
int getInputsInfo(CustomNodeTensorInfo** info, int* infoCount, const CustomNodeParam*, int,
                  void*) {
    return describe(kInput, info, infoCount);
}

// When a pipeline is checked: which outputs it can use. A node with a `demultiply_count` has one
// dimension more in front of each: the number of results.
int getOutputsInfo(CustomNodeTensorInfo** info, int* infoCount, const CustomNodeParam*, int,
                   void*) {
    return describe(kOutput, info, infoCount);
}

// Takes back one piece of memory that a call above returned.
int release(void* memory, void*) {
    std::free(memory);
    return 0;
}
