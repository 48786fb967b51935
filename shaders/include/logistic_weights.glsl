// A step of the weights. The including shader declares `weights`: all weights, then their rests (logistic_add.glsl).
#ifndef LOGISTIC_WEIGHTS_GLSL
#define LOGISTIC_WEIGHTS_GLSL

#include "logistic_add.glsl"
#include "logistic_parameters.glsl"

// Updates one weight by the sum of its gradient over a batch of weight n.
void move_weight(const uint at, const float gradient, const float n) {
    uint rest_at = uint(weights.length()) / 2u + at;
    float w = weights[at], rest = weights[rest_at];
    add(w, rest, -learning_rate * (gradient / n + alpha * w));
    weights[at] = w;
    weights[rest_at] = rest;
}

#endif
