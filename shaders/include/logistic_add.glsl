#ifndef LOGISTIC_ADD_GLSL
#define LOGISTIC_ADD_GLSL

// Compensated sum: value + rest += change. `rest` holds the bits below the last place of `value`, so that small steps
// accumulate. Kahan, "Further remarks on reducing truncation errors", CACM 8 (1965).
void add(inout float value, inout float rest, const float change) {
    precise float more = change + rest;
    precise float sum = value + more;
    precise float lost = more - (sum - value);
    value = sum;
    rest = lost;
}

#endif
