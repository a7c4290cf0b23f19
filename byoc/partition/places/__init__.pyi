"""The names of this package, for editors and type checkers, and for its lazy loading."""

from byoc.partition.place import DataLayout as DataLayout
from byoc.partition.place import Place as Place
from byoc.partition.place import Precision as Precision
from byoc.partition.place import register_target as register_target
from byoc.partition.places.grade import FORMULAS as FORMULAS
from byoc.partition.places.grade import Formula as Formula
from byoc.partition.places.kernel import KERNELS as KERNELS
from byoc.partition.places.kernel import Kernel as Kernel
from byoc.partition.places.kernel import KernelRegistry as KernelRegistry
from byoc.partition.places.kernel import kernel as kernel
from byoc.partition.places.kernel import register_kernel as register_kernel
from byoc.partition.places.pick import Explanation as Explanation
from byoc.partition.places.pick import valid_places as valid_places
from byoc.partition.places.score import Placed as Placed
from byoc.partition.places.score import PlacementUnit as PlacementUnit
from byoc.partition.places.score import score_places as score_places
from byoc.partition.places.tensor_type import TensorTy as TensorTy
