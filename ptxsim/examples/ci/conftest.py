pytest_plugins = ["ptxsim.testing"]
