// A program of another project: it must compile, link and run against an installed vramlink.

#include <cstdio>
#include <cstring>

#include <vramlink/error.hpp>
#include <vramlink/version.hpp>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

int main() {
  const char* loaded = vramlink::version_string();
  const char* compiled = TEXT(VRAMLINK_VERSION_MAJOR) "." TEXT(VRAMLINK_VERSION_MINOR) "." TEXT(
      VRAMLINK_VERSION_PATCH);
  std::printf("vramlink %s\n", loaded);
  return std::strcmp(loaded, compiled) == 0 ? 0 : 1;
}
