// The end of a step, done by one invocation: intercept, loss, history, and whether training stops.
#ifndef LOGISTIC_STEP_GLSL
#define LOGISTIC_STEP_GLSL

#ifndef STATE_ACCESS
#define STATE_ACCESS
#endif
#include "logistic_state.glsl"
#include "logistic_add.glsl"
#include "logistic_parameters.glsl"

// What sums over the batch are divided by. Not the weight of these very rows: then a row that counts little would pull
// more in a batch of its like.
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
    // By its bits: compilers may take a comparison with itself for granted.
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
