#ifndef LOGISTIC_ADD_GLSL
#define LOGISTIC_ADD_GLSL

// value + rest += change, where `rest` is what the float `value` is too coarse to hold: steps far smaller than a unit in
// its last place still add up. Kahan, "Further remarks on reducing truncation errors", CACM 8 (1965).
void add(inout float value, inout float rest, const float change) {
    precise float more = change + rest;
    precise float sum = value + more;
    precise float lost = more - (sum - value);
    value = sum;
    rest = lost;
}

#endif
