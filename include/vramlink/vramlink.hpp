// Everything at once.
#ifndef VRAMLINK_VRAMLINK_HPP
#define VRAMLINK_VRAMLINK_HPP

#include <vramlink/channel.hpp>
#include <vramlink/deadline.hpp>
#include <vramlink/device.hpp>
#include <vramlink/diagnose.hpp>
#include <vramlink/error.hpp>
#include <vramlink/format.hpp>
#include <vramlink/host_copy.hpp>
#include <vramlink/inspect.hpp>
#include <vramlink/log.hpp>
#include <vramlink/result.hpp>
#include <vramlink/runtime.hpp>
#include <vramlink/statistics.hpp>
#include <vramlink/stream.hpp>
#include <vramlink/version.hpp>

#endif  // VRAMLINK_VRAMLINK_HPP
