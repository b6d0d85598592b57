package process

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/process/processors"
)

// Options are the flags. What they change was measured on two cores only
// (docs/adr/0007-the-process-tunes-gos-processors-and-its-garbage.md), so larger machines
// have Go's own settings by default.
type Options struct {
	// ProcessorsPerCore is how many of Go's processors there are for each core. Zero is
	// two on machines of at most two cores, and one on others.
	ProcessorsPerCore int
	// GarbageBytes is how much garbage a busy process may leave uncollected, in bytes.
	// Zero is Go's own measure. Less than zero is 512 MiB on machines of at most two cores,
	// and Go's own measure on others.
	GarbageBytes int64
}

// NewOptions returns the defaults.
func NewOptions() Options { return Options{GarbageBytes: -1} }

// AddFlags adds a flag for each option.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.ProcessorsPerCore, "processors-per-core", o.ProcessorsPerCore,
		"Processors of Go for each core. With two, busy tenants keep others waiting less on small machines. "+
			"0 is 2 on machines of at most two cores, and 1 on others. The environment variable GOMAXPROCS overrides it.")
	fs.Int64Var(&o.GarbageBytes, "garbage-bytes", o.GarbageBytes,
		"Garbage that the process may leave uncollected while it is busy, in bytes. 0 is Go's own measure, "+
			"-1 is 512 MiB on machines of at most two cores, and Go's own measure on others. The environment variable GOGC overrides it.")
}

// mostPerCore is far more than was useful in measurements.
const mostPerCore = 8

// Validate reports what is wrong with the flags.
func (o *Options) Validate() error {
	if o.ProcessorsPerCore < 0 || o.ProcessorsPerCore > mostPerCore {
		return fmt.Errorf("--processors-per-core: %d is not between 0 and %d", o.ProcessorsPerCore, mostPerCore)
	}
	if o.GarbageBytes < -1 {
		return fmt.Errorf("--garbage-bytes: %d is neither -1, nor 0, nor a number of bytes", o.GarbageBytes)
	}
	return nil
}

// Apply tunes the process until ctx ends.
func (o *Options) Apply(ctx context.Context) {
	perCore, garbage := o.settings(processors.Cores())
	processors.Spare(perCore)
	memory.Keep(ctx, garbage)
}

// settings returns the settings for a machine.
func (o *Options) settings(cores int) (perCore int, garbage uint64) {
	const fewCores, perFewCores, garbageOfFewCores = 2, 2, 512 << 20
	perCore, garbage = max(1, o.ProcessorsPerCore), uint64(max(0, o.GarbageBytes))
	if cores <= fewCores && o.ProcessorsPerCore == 0 {
		perCore = perFewCores
	}
	if cores <= fewCores && o.GarbageBytes < 0 {
		garbage = garbageOfFewCores
	}
	return perCore, garbage
}
