// The end of a step, done by one invocation: intercept, loss, history, and whether training stops.
#ifndef LOGISTIC_STEP_GLSL
#define LOGISTIC_STEP_GLSL

#define STATE_ACCESS
#include "logistic_state.glsl"

layout(push_constant) uniform Update {
    uint n_slots;         // partial sums per column
    uint n_rows;
    uint batch_size;
    uint n_batches;       // in an epoch
    float mean_weight;    // of the rows
    float learning_rate;
    float alpha;
    float tolerance;
    uint patience;        // epochs without improvement after which training stops; 0: it does not
    uint fits_intercept;
};

// value + rest += change, where `rest` is what the float `value` is too coarse to hold: steps far smaller than a unit in
// its last place still add up. Kahan, "Further remarks on reducing truncation errors", CACM 8 (1965).
void add(inout float value, inout float rest, float change) {
    precise float more = change + rest;
    precise float sum = value + more;
    precise float lost = more - (sum - value);
    value = sum;
    rest = lost;
}

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

void end_step(float loss, float residual, float squared_weights) {
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
