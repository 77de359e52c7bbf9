// What the two frames print: a line for a cell, repetition and role, in numbers.
#ifndef VCOPY_FRAME_H
#define VCOPY_FRAME_H

#include "vcopy.h"

// What is measured, and how often: written by `nagori bench vcopy`.
#include "cells.h"

#endif
