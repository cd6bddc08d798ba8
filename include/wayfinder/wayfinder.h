/* SPDX-License-Identifier: Apache-2.0 */
/* Everything: read a model, build or tune an engine, load and run it. */
#ifndef WAYFINDER_WAYFINDER_H
#define WAYFINDER_WAYFINDER_H

#include "wayfinder/advise.h"
#include "wayfinder/allocator.h"
#include "wayfinder/archive.h"
#include "wayfinder/backend.h"
#include "wayfinder/builder.h"
#include "wayfinder/context.h"
#include "wayfinder/doctor.h"
#include "wayfinder/engine.h"
#include "wayfinder/gate.h"
#include "wayfinder/log.h"
#include "wayfinder/model.h"
#include "wayfinder/status.h"
#include "wayfinder/tensor.h"
#include "wayfinder/tuner.h"
#include "wayfinder/verify.h"
#include "wayfinder/version.h"

#endif
