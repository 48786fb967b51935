// The end of a step, for one invocation: intercept, loss, history, and the decision to stop.
#ifndef LOGISTIC_STEP_GLSL
#define LOGISTIC_STEP_GLSL

#ifndef STATE_ACCESS
#define STATE_ACCESS
#endif
#include "logistic_state.glsl"
#include "logistic_add.glsl"
#include "logistic_parameters.glsl"

// The divisor of sums over the batch: the mean weight of all rows, not of the batch. Otherwise a row of small weight
// would have more influence in a batch of rows of small weight.
float weight_of_batch() {
    return float(min(batch_size, n_rows - batch * batch_size)) * mean_weight;
}

void end_epoch() {
    float loss = epoch_loss / (float(n_rows) * mean_weight);
    history[epoch % history.length()] = loss;
    epoch += 1u;
    batch = 0u;
    epoch_loss = 0.0;
    // The rule of scikit-learn's SGDClassifier.
    n_stale = loss > best_loss - tolerance ? n_stale + 1u : 0u;
    best_loss = min(best_loss, loss);
    if (patience > 0u && n_stale >= patience) stopped = 1u;
    // Tests the bits: compilers may fold a comparison of a float with itself.
    if ((floatBitsToUint(loss) & 0x7f800000u) == 0x7f800000u) stopped = 2u;
}

void end_step(const float loss, const float residual, const float squared_weights) {
    float n = weight_of_batch();
    epoch_loss += loss + n * (0.5 * alpha * squared_weights);
    if (fits_intercept != 0u) {
        float value = intercept, rest = intercept_rest;
        add(value, rest, -learning_rate * (residual / n));
        intercept = value;
        intercept_rest = rest;
    }
    batch += 1u;
    if (batch == n_batches) end_epoch();
}

#endif
