"""The names of this package, for editors and type checkers, and for its lazy loading."""

from byoc.testing.certificate import CaseResult as CaseResult
from byoc.testing.certificate import Certificate as Certificate
from byoc.testing.certificate import Changes as Changes
from byoc.testing.certificate import SmallestCase as SmallestCase
from byoc.testing.certificate import SpeedRow as SpeedRow
from byoc.testing.certificate import read_certificate as read_certificate
from byoc.testing.certifying import certify as certify
from byoc.testing.checks import CHECKS as CHECKS
from byoc.testing.checks import Finding as Finding
from byoc.testing.conformance import conformance_tests as conformance_tests
from byoc.testing.core.case import Case as Case
from byoc.testing.core.case import read_case as read_case
from byoc.testing.core.case import write_case as write_case
from byoc.testing.core.difference import Errors as Errors
from byoc.testing.core.difference import difference as difference
from byoc.testing.core.difference import errors as errors
from byoc.testing.devices.certificate import DeviceCertificate as DeviceCertificate
from byoc.testing.devices.certificate import DeviceResult as DeviceResult
from byoc.testing.devices.certificate import certify_device as certify_device
from byoc.testing.devices.certificate import device_tests as device_tests
from byoc.testing.devices.checks import DEVICE_CHECKS as DEVICE_CHECKS
