// What the two frames print: a line for a cell, repetition and role, in numbers.
#ifndef VCOPY_FRAME_H
#define VCOPY_FRAME_H

#include "vcopy.h"

// The cells that are measured, and how often each: written by `nagori bench vcopy`, which compiles
// this with one file of cells for a run.
#include "cells.h"

enum { CELLS = sizeof cells / sizeof cells[0] };

#endif
