// The loops in what every processor of the architecture has (SSE2, NEON).
#include "loops.h"
#define RIGHTFAST_SET baseline
#define RIGHTFAST_BYTES 16
#include "loops_body.h"
