package usage

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// shortest is the shortest period in which tenants are recorded.
const shortest = 10 * time.Millisecond

// Options say how much detail there is about what tenants use.
type Options struct {
	// Tenants is how many have series of their own in the metrics.
	Tenants int
	// Period is how often the status of active Tenants is written. 0 is never.
	Period time.Duration
}

// NewOptions returns the defaults.
func NewOptions() Options { return Options{Tenants: 50, Period: time.Minute} }

// AddFlags adds the flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.Tenants, "tenant-metrics-limit", o.Tenants,
		"Number of tenants that have metric series (tenantry_tenant_...) of their own: those with the most requests of late, "+
			"the most stored bytes, and the least room in their quota. All others are counted together, as tenant \"_other\".")
	fs.DurationVar(&o.Period, "tenant-usage-period", o.Period,
		"How often it is written to the status of a Tenant that is active what it has stored and asked. 0 is never.")
}

// Validate reports what is wrong with the options.
func (o Options) Validate() []error {
	var errs []error
	if o.Tenants < 0 {
		errs = append(errs, fmt.Errorf("--tenant-metrics-limit: %d is negative", o.Tenants))
	}
	if o.Period != 0 && o.Period < shortest {
		errs = append(errs, fmt.Errorf("--tenant-usage-period: %s is less than %s; 0 is never", o.Period, shortest))
	}
	return errs
}
