# Builds the library of the custom node `@NAME@`. Libraries that it needs go to LDLIBS.

CXXFLAGS ?= -O2 -Wall -Wextra
LIBRARY := lib@NAME@.so

# A server may have the old file open, so the new one takes its place in one step.
$(LIBRARY): @NAME@.cpp custom_node_interface.h
	$(CXX) -std=c++14 $(CXXFLAGS) -shared -fPIC -o $@.new $< $(LDFLAGS) $(LDLIBS)
	mv $@.new $@

.PHONY: clean
clean:
	rm -f $(LIBRARY) $(LIBRARY).new
