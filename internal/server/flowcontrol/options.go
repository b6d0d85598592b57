package flowcontrol

import (
	"fmt"

	"github.com/spf13/pflag"
)

// Allowance is what one server does for the users of one tenant. Zero is no
// limit.
type Allowance struct {
	RequestsPerSecond int32
	// Burst is twice RequestsPerSecond if it is zero.
	Burst    int32
	InFlight int32
	Watches  int32
}

// AddFlags adds a flag for each.
func (d *Allowance) AddFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&d.RequestsPerSecond, "tenant-requests-per-second", d.RequestsPerSecond,
		"Requests that this server serves each tenant in a second, on average, unless Tenant.spec.rateLimit says otherwise. 0 is no limit.")
	fs.Int32Var(&d.Burst, "tenant-requests-burst", d.Burst,
		"Requests that this server serves each tenant at once after a pause. 0 is twice --tenant-requests-per-second.")
	fs.Int32Var(&d.InFlight, "tenant-requests-inflight", d.InFlight,
		"Requests that this server serves each tenant at a time, unless Tenant.spec.rateLimit says otherwise. 0 is no limit.")
	fs.Int32Var(&d.Watches, "tenant-watches", d.Watches,
		"Watches that each tenant may have open at this server, unless Tenant.spec.rateLimit says otherwise. 0 is no limit.")
}

// most is the highest limit, as in the schema of Tenants.
const most = 1_000_000

// Validate reports what is wrong with the flags.
func (d *Allowance) Validate() []error {
	var errs []error
	for _, flag := range []struct {
		name  string
		value int32
	}{
		{"tenant-requests-per-second", d.RequestsPerSecond},
		{"tenant-requests-burst", d.Burst},
		{"tenant-requests-inflight", d.InFlight},
		{"tenant-watches", d.Watches},
	} {
		if flag.value < 0 || flag.value > most {
			errs = append(errs, fmt.Errorf("--%s: %d is not between 0, no limit, and %d", flag.name, flag.value, most))
		}
	}
	if d.Burst > 0 && d.Burst < d.RequestsPerSecond {
		errs = append(errs, fmt.Errorf("--tenant-requests-burst: %d is less than --tenant-requests-per-second, %d", d.Burst, d.RequestsPerSecond))
	}
	return errs
}
