// What training keeps on the device from step to step; the host reads a copy of it when it asks. The including shader
// sets STATE_ACCESS (readonly, or nothing) and STATE_BINDING.
#ifndef LOGISTIC_STATE_GLSL
#define LOGISTIC_STATE_GLSL

layout(std430, set = 0, binding = STATE_BINDING) STATE_ACCESS buffer State {
    uint batch;            // of the epoch, the next to be done
    uint epoch;            // how many are done
    uint stopped;          // 1: converged; 2: the loss is no longer finite. Steps then change nothing
    uint n_stale;          // epochs in a row that improved the loss too little
    float best_loss;
    float epoch_loss;      // sum over the rows done in this epoch
    float intercept;
    float intercept_rest;  // what `intercept` is too coarse to hold
    uint groups_done;      // of this step
    float history[];       // loss of epoch i, at i modulo the length
};

#endif
