// Parameters of a training step, shared by all of its kernels; each uses some of them.
#ifndef LOGISTIC_PARAMETERS_GLSL
#define LOGISTIC_PARAMETERS_GLSL

layout(push_constant) uniform Parameters {
    // of the dispatch
    uint n_tiles;
    uint tiles_per_lane;
    uint first_partial_sum;      // of its workgroups
    uint n_partial_sums;         // partial sums of the step, per column
    // of the chunk of the table
    uint first_row;
    uint n_rows_here;
    // of the table
    uint n_rows;
    uint n_features;
    float mean_weight;    // of the rows
    // of the training
    uint batch_size;
    uint n_batches;       // in an epoch
    uint n_ordered;       // batches that `order` holds
    uint max_epochs;
    float learning_rate;
    float alpha;
    float tolerance;
    uint patience;        // epochs without improvement before training stops; 0: no limit
    uint fits_intercept;
};

#endif
