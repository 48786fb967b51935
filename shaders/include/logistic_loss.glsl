// Cross-entropy and its derivative for four rows, accurate to a few units in the last place for every margin.
#ifndef LOGISTIC_LOSS_GLSL
#define LOGISTIC_LOSS_GLSL

// exp(-a) for a >= 0, at least 1.2e-38: smaller values do not change the loss. A built-in exp() may be off by 3 + 2 a
// units in the last place (Vulkan, "Precision and Operation of SPIR-V Instructions"). Range reduction by a ln 2 in two
// parts: Cody and Waite, 1980, chapter 6. Both polynomials are minimax fits of the relative error, 3e-9 here and 5e-9
// in the logarithm below, evaluated in pairs for instruction-level parallelism.
vec4 exp_minus(vec4 a) {
    a = min(a, vec4(87.0));
    vec4 k = floor(a * 1.442695041 + 0.5);
    vec4 r = k * 0.693359375 - a;
    r += k * -2.12194440e-4;
    vec4 s = r * r;
    vec4 p = (s * 1.381446163e-3 + (r * 8.368781269e-3 + 4.166839435e-2)) * s + (r * 0.1666652010 + 0.4999999341);
    return (p * s + (r + 1.0)) * intBitsToFloat((127 - ivec4(k)) << 23);
}

// `t` holds sign and weight of a row: +w for the second class, -w for the first, 0 for an ignored row.
// With the margin m = sign(t) z: loss w log(1 + exp(-m)), its derivative by z is -t / (1 + exp(m)).
void logistic_loss(const vec4 z, const vec4 t, out vec4 loss, out vec4 residual) {
    vec4 m = mix(z, -z, lessThan(t, vec4(0.0)));
    vec4 e = exp_minus(abs(m));
    // log(1 + e) = 2 atanh(u), u = e / (2 + e) <= 1/3: relative accuracy also where e is tiny.
    vec4 u = e / (2.0 + e);
    vec4 v = u * u;
    vec4 series = (v * 0.2801202341 + 0.2800179733) * (v * v) + (v * 0.4002152778 + 0.6666641627);
    vec4 inverse = 1.0 / (1.0 + e);
    loss = abs(t) * (max(-m, vec4(0.0)) + u * (series * v + 2.0));
    residual = -t * mix(inverse, e * inverse, greaterThanEqual(m, vec4(0.0)));
}

#endif
