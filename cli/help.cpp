// cli: what the commands are for.
#include "help.hpp"

#include <algorithm>
#include <array>

namespace vramlink::cli {
namespace {

constexpr auto kTexts = std::to_array<HelpText>({
    {"",
     "  vramlink demo\n"
     "  vramlink pub cam0 clip.y4m --loop\n",
     "COMMAND [options]", "Shares frames and tensors between the processes of this host.",
     "Names live in $VRAMLINK_RUNTIME_DIR, else $XDG_RUNTIME_DIR/vramlink, else\n"
     "/run/user/UID/vramlink, else /tmp/vramlink-UID. With --group or VRAMLINK_GROUP other users\n"
     "share them: in $VRAMLINK_RUNTIME_DIR, else /run/vramlink-group-GID if it is there, else\n"
     "/tmp/vramlink-group-GID.\n"},
    {"demo",
     "  vramlink demo\n"
     "  vramlink demo --crash --seconds 20\n",
     "demo [options]", "One process draws a moving test card, two others check every byte of it.",
     "Shows a table while it runs, and at the end a summary and a PNG of a received frame.\n"
     "Exit code 1 if a frame was torn or none arrived.\n"},
    {"pub",
     "  vramlink pub cam0 clip.y4m --loop\n"
     "  ffmpeg -i clip.mp4 -pix_fmt yuv420p -f yuv4mpegpipe - | vramlink pub cam0 -\n",
     "pub NAME FILE...|-|--test-card [options]", "Publishes frames from a file or pipe.",
     "FILE is Y4M (8-bit 420, 422, 444, mono), NPY, PNG (several, or a pattern such as\n"
     "frame%04d.png), or raw frames with --format and --size. At the end of the input it "
     "announces\n"
     "the end of the stream and waits until subscribers have taken what they queued.\n"},
    {"sub",
     "  vramlink sub cam0 --y4m clip.y4m\n"
     "  vramlink sub cam0 --policy queue:6 --y4m - | ffmpeg -i - clip.mp4\n",
     "sub NAME [--y4m FILE|--raw FILE|--npy FILE] [options]",
     "Receives frames and writes them to a file or pipe.",
     "Ends with 0 at the end of the stream. Without a file it only counts.\n"},
    {"grab",
     "  vramlink grab cam0 -o frame.png\n"
     "  vramlink grab weights -o weights.npy\n",
     "grab NAME -o FILE.png|FILE.npy|- [options]",
     "Saves one frame: a picture as PNG, or any as NPY.",
     "Y'CbCr and gray become RGB by the channel's matrix and range; unknown ones are taken as\n"
     "limited range and BT.601 below 720 rows, BT.709 from there. \"-\" is a PNG to stdout.\n"},
    {"ls",
     "  vramlink ls\n"
     "  vramlink ls --json\n",
     "ls [options]", "Lists the channels of this host.", ""},
    {"doctor",
     "  vramlink doctor\n"
     "  vramlink doctor --strict --json\n",
     "doctor [options]", "Says what works here and what does not, with remedies.",
     "Sends frames between two processes through host memory and through each GPU. Exit code 1 if\n"
     "a check failed; warnings count with --strict, and what is not there does not.\n"},
    {"explain",
     "  vramlink explain cam0\n"
     "  vramlink explain cam0 --gpu 1 --try\n",
     "explain NAME|PID [options]",
     "Says by which path frames of a channel come here, and why not by a faster one.",
     "PID: of every channel that the process owns. Only looks, unless --try is given, which makes\n"
     "it a subscriber for one frame. Ends as `vramlink sub` with the same options would: 5 if "
     "there\n"
     "is no path.\n"},
    {"version",
     "  vramlink version\n"
     "  vramlink version --json\n",
     "version [options]", "Prints the version of the library and of the wire format.", ""},
});

}  // namespace

std::span<const HelpText> help_texts() noexcept { return kTexts; }

const HelpText* find_help(std::string_view command) noexcept {
  const auto* found = std::find_if(kTexts.begin(), kTexts.end(), [command](const HelpText& each) {
    return each.command == command;
  });
  return found == kTexts.end() ? nullptr : found;
}

}  // namespace vramlink::cli
