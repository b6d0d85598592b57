package usage

import (
	"fmt"

	"github.com/spf13/pflag"
)

// Options say how much detail the metrics have.
type Options struct {
	// Tenants is how many have series of their own.
	Tenants int
}

// NewOptions returns the defaults.
func NewOptions() Options { return Options{Tenants: 50} }

// AddFlags adds the flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.Tenants, "tenant-metrics-limit", o.Tenants,
		"Number of tenants that have metric series (tenantry_tenant_...) of their own: those with the most requests of late. "+
			"All others are counted together, as tenant \"_other\".")
}

// Validate reports what is wrong with the options.
func (o Options) Validate() []error {
	if o.Tenants < 0 {
		return []error{fmt.Errorf("--tenant-metrics-limit: %d is negative", o.Tenants)}
	}
	return nil
}
