"""tools/check_layers.py passes on a good tree and reports each way to break the include rule."""

import os
import unittest

from gate_case import ROOT, GateCase

GATE = "check_layers.py"


class Layers(GateCase):
    def setUp(self):
        super().setUp()
        with open(os.path.join(ROOT, "tools", "layers.txt"), encoding="utf-8") as file:
            self.write("tools/layers.txt", file.read())
        self.write("include/vramlink/error.hpp", "#include <string>\n")
        self.write("include/vramlink/result.hpp", "#include <vramlink/error.hpp>\n")
        self.write("src/base/checked.hpp", "#include <vramlink/result.hpp>\n")
        self.write("src/os/socket.hpp", '#include "base/checked.hpp"\n')
        self.write("src/os/socket.cpp", '#include "os/socket.hpp"\n#include <sys/socket.h>\n')
        self.write("src/wire/codec.hpp", '#include "base/checked.hpp"\n')
        self.write("src/backend/backend.hpp", "#include <vramlink/result.hpp>\n")
        self.write("src/backend/host/factory.hpp", '#include "backend/backend.hpp"\n')
        self.write("src/backend/cuda/factory.hpp", '#include "backend/backend.hpp"\n')
        self.write("src/runtime/registry.cpp", '#include "backend/host/factory.hpp"\n')
        self.write("src/runtime/registry.hpp", '#include "backend/backend.hpp"\n')
        self.write("src/channel/ring.hpp", '#include "wire/codec.hpp"\n')
        self.write("src/loan/lender.hpp", '#include "wire/codec.hpp"\n')
        self.write("src/CMakeLists.txt",
                   "target_sources(x PRIVATE os/socket.cpp runtime/registry.cpp)\n")
        self.write("cli/main.cpp", "#include <CLI/CLI.hpp>\n#include <vramlink/error.hpp>\n")
        self.write("cli/json.cpp", "#include <nlohmann/json.hpp>\n")
        self.write("cli/CMakeLists.txt", "add(main.cpp json.cpp)\n")
        self.write("tests/unit/base/checked_test.cpp", '#include "base/checked.hpp"\n')
        self.write("tests/unit/CMakeLists.txt", "add(base/checked_test.cpp)\n")
        self.write("bench/process/latency.cpp", "#include <vramlink/error.hpp>\n")
        self.write("bench/CMakeLists.txt",
                   "foreach(name IN ITEMS latency)\nadd(process/${name}.cpp)\nendforeach()\n")
        self.write("tests/cli/test_pub.py", "")
        self.write("tests/cli/CMakeLists.txt", "add(test_pub.py)\n")

    def test_good_tree(self):
        self.assert_passes(GATE)

    def plant(self, path, text, words):
        with self.subTest(path=path, text=text):
            full = os.path.join(self.tree, path)
            before = None
            if os.path.exists(full):
                with open(full, encoding="utf-8") as file:
                    before = file.read()
            self.write(path, text)
            self.assert_fails(GATE, words)
            if before is None:
                os.remove(full)
            else:
                self.write(path, before)
            self.assert_passes(GATE)

    def test_layers_to_the_right(self):
        self.plant("src/base/checked.hpp", '#include "os/socket.hpp"\n', "layer base must not")
        self.plant("src/os/socket.hpp", '#include "wire/codec.hpp"\n', "layer os must not")
        self.plant("src/wire/codec.hpp", '#include "os/socket.hpp"\n', "layer wire must not")
        self.plant("src/channel/ring.hpp", '#include "loan/lender.hpp"\n', "layer channel must not")

    def test_back_ends(self):
        self.plant("src/backend/host/factory.hpp", '#include "backend/cuda/factory.hpp"\n',
                   "layer host must not")
        self.plant("src/runtime/registry.hpp", '#include "backend/host/factory.hpp"\n',
                   "layer runtime must not")
        self.plant("src/channel/ring.hpp", '#include "../backend/host/factory.hpp"\n',
                   "layer channel must not")

    def test_public_headers(self):
        self.plant("include/vramlink/error.hpp", '#include "base/checked.hpp"\n',
                   "layer public must not")
        self.plant("include/vramlink/error.hpp", "#include <sys/types.h>\n",
                   "a public header includes")
        self.plant("include/vramlink/error.hpp", "#include <vramlink/none.hpp>\n",
                   "is no public header")

    def test_programs_use_public_headers_alone(self):
        self.plant("cli/json.cpp", '#include "base/checked.hpp"\n', "layer cli must not")

    def test_system_headers(self):
        self.plant("src/os/socket.hpp", "#include <sys/socket.h>\n", "belongs in .cpp files")
        self.plant("src/runtime/registry.cpp", "#include <dlfcn.h>\n", "belongs in .cpp files")
        self.plant("src/backend/host/factory.hpp", "#include <cuda.h>\n", "belongs in .cpp files")

    def test_once(self):
        self.plant("cli/json.cpp", "#include <CLI/App.hpp>\n", "by one .cpp only")

    def test_unknown_include(self):
        self.plant("src/os/socket.hpp", '#include "os/none.hpp"\n', "is no file of this tree")

    def test_owner_and_target(self):
        self.plant("src/loose.hpp", "", "no layer owns this file")
        self.plant("elsewhere/x.cpp", "", "no layer owns this file")
        self.plant("src/os/fd.cpp", "", "no CMakeLists.txt names this file")
        self.plant("tests/unit/base/log_test.cpp", "", "no CMakeLists.txt names this file")
        self.plant("bench/process/other.cpp", "", "no CMakeLists.txt names this file")
        self.plant("tests/cli/test_sub.py", "", "no CMakeLists.txt names this test")
        self.plant("tests/unit/CMakeLists.txt", "# add(base/checked_test.cpp)\n",
                   "no CMakeLists.txt names this file")

    def test_cuda_switch(self):
        self.plant("src/channel/ring.hpp", "#ifdef VRAMLINK_CUDA\n#endif\n",
                   "a preprocessor switch on CUDA")

    def test_public_headers_have_guards(self):
        self.plant("include/vramlink/error.hpp", "#pragma once\n", "needs an include guard")


if __name__ == "__main__":
    unittest.main()
