"""Every plot is a module here. Importing the package registers all of them, in the order of their names."""
import importlib
import pkgutil

for found in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{found}")
