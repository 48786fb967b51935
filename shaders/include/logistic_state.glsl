// The state of training on the device; the host reads copies of it. The including shader defines STATE_ACCESS
// (readonly, coherent, or nothing) and STATE_BINDING.
#ifndef LOGISTIC_STATE_GLSL
#define LOGISTIC_STATE_GLSL

layout(std430, set = 0, binding = STATE_BINDING) STATE_ACCESS buffer State {
    uint batch;            // next one of the epoch
    uint epoch;            // number of finished epochs
    uint stopped;          // 1: converged; 2: the loss is not finite. Then steps change nothing
    uint n_stale;          // consecutive epochs with too little improvement of the loss
    float best_loss;
    float epoch_loss;      // sum over the finished rows of this epoch
    float intercept;
    float intercept_rest;  // compensation of `intercept`, see logistic_add.glsl
    uint groups_done;      // of this step
    float history[];       // loss of epoch i, at i modulo the length
};

#endif
