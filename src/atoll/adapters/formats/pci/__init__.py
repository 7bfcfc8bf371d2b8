"""PCI addresses, classes and functions, as lspci and sysfs list them."""
