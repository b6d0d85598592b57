package flowcontrol

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/tenantry/tenantry/internal/process/files"
	"github.com/tenantry/tenantry/internal/process/processors"
)

// Options are the flags.
type Options struct {
	// Allowance is that of tenants without a rateLimit. There are no limits by
	// default.
	Allowance Allowance
	// Size is that of tenants without a requestLimit. By default it is upstream's limit for
	// bodies, and none for lists.
	Size Size
	// WatchBytes is what the watches of each tenant may hold of large events. Zero is no limit.
	WatchBytes int64
	// Concurrency is that of each tenant.
	Concurrency Concurrency
	// Connections is how many connections all clients have at most. Zero, the default, is half as many as the process may
	// have files, and 32768 at most.
	Connections int
}

// Allowance are the limits of the users of one tenant on one server. Zero is no
// limit.
type Allowance struct {
	RequestsPerSecond int32
	// Burst is twice RequestsPerSecond by default.
	Burst    int32
	InFlight int32
	Watches  int32
}

// Concurrency is how many requests of a tenant are executed at a time while others
// are served, and eight times as many, 32 at most, while no others are. Further requests of the
// tenant wait. Zero is any number.
type Concurrency struct {
	// Reads are served from memory, and keep a core busy. The default leaves one core
	// to other tenants.
	Reads int
	// Writes wait for etcd and webhooks for some of their time. The default is one for
	// each core, and at least two.
	Writes int
	// LargeReads keep a core busy for longer than other tenants should have to wait. The
	// default is one for two cores.
	LargeReads int
}

// NewOptions returns the defaults for this machine.
func NewOptions() Options {
	cores := processors.Cores()
	return Options{Size: Size{BodyBytes: mostBodyBytes}, WatchBytes: 64 << 20, Concurrency: Concurrency{
		Reads: max(1, cores-1), Writes: max(2, cores), LargeReads: max(1, cores/2),
	}}
}

// AddFlags adds a flag for each option.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	a := &o.Allowance
	fs.Int32Var(&a.RequestsPerSecond, "tenant-requests-per-second", a.RequestsPerSecond,
		"Requests that this server serves each tenant in a second, on average, unless Tenant.spec.rateLimit says otherwise. 0 is no limit.")
	fs.Int32Var(&a.Burst, "tenant-requests-burst", a.Burst,
		"Requests that this server serves each tenant at once after a pause. 0 is twice --tenant-requests-per-second.")
	fs.Int32Var(&a.InFlight, "tenant-requests-inflight", a.InFlight,
		"Requests that this server serves each tenant at a time, unless Tenant.spec.rateLimit says otherwise. Further ones are refused. 0 is no limit.")
	fs.Int32Var(&a.Watches, "tenant-watches", a.Watches,
		"Watches that each tenant may have open at this server, unless Tenant.spec.rateLimit says otherwise. 0 is no limit.")
	fs.Int64Var(&o.Size.BodyBytes, "tenant-body-bytes", o.Size.BodyBytes,
		"Size of the largest body that this server reads of each tenant's requests, in bytes, unless Tenant.spec.requestLimit says otherwise. "+
			"Larger ones are refused.")
	fs.Int32Var(&o.Size.ListObjects, "tenant-list-objects", o.Size.ListObjects,
		"Objects that one answer to each tenant may have, unless Tenant.spec.requestLimit says otherwise. Larger pages are cut; "+
			"lists without pages, and watches that begin with the current state, are refused beyond it. 0 is no limit.")
	fs.Int64Var(&o.WatchBytes, "tenant-watch-bytes", o.WatchBytes,
		"Bytes of encoded events that the watches of each tenant may hold at this server. A watch holds its largest event, "+
			"if that has 64 KiB or more, until it ends. Beyond it watches are ended, those that are not read first. 0 is no limit.")
	fs.IntVar(&o.Connections, "max-connections", o.Connections,
		"Connections that all clients together may have open at this server. Beyond it a new one is closed, or one of the address that has the most if the new one's has fewer. "+
			"A silent connection takes 10 KiB of memory, one by TLS 60 KiB. 0 is half as many as the process may have files open, and 32768 at most. Otherwise 100 at least, and three quarters of these files at most.")
	c := &o.Concurrency
	fs.IntVar(&c.Reads, "tenant-concurrent-reads", c.Reads,
		"Reads of a tenant that this server executes at a time while others are served, by default one for each core but one. Further ones wait. "+
			"Tenants with a limit of requests in flight have that instead of this and --tenant-concurrent-writes. 0 is any number.")
	fs.IntVar(&c.Writes, "tenant-concurrent-writes", c.Writes,
		"Writes of a tenant that this server executes at a time while others are served, by default one for each core, and two at least. Further ones wait. 0 is any number.")
	fs.IntVar(&c.LargeReads, "tenant-concurrent-large-reads", c.LargeReads,
		"Lists of much data of a tenant that this server executes at a time while others are served, one for two cores by default. Further ones wait. 0 is any number.")
}

// most is the highest limit, as in the schema of Tenants.
const most = 1_000_000

// leastWatchBytes is more than any event.
const leastWatchBytes = 32 << 20

// Validate reports what is wrong with the flags.
func (o *Options) Validate() []error {
	var errs []error
	for _, flag := range []struct {
		name  string
		value int
	}{
		{"tenant-requests-per-second", int(o.Allowance.RequestsPerSecond)},
		{"tenant-requests-burst", int(o.Allowance.Burst)},
		{"tenant-requests-inflight", int(o.Allowance.InFlight)},
		{"tenant-watches", int(o.Allowance.Watches)},
		{"tenant-list-objects", int(o.Size.ListObjects)},
		{"tenant-concurrent-reads", o.Concurrency.Reads},
		{"tenant-concurrent-writes", o.Concurrency.Writes},
		{"tenant-concurrent-large-reads", o.Concurrency.LargeReads},
	} {
		if flag.value < 0 || flag.value > most {
			errs = append(errs, fmt.Errorf("--%s: %d is not between 0, no limit, and %d", flag.name, flag.value, most))
		}
	}
	if all := files.Most(); o.Connections != 0 && (o.Connections < leastConnections || o.Connections > all*3/4) {
		errs = append(errs, fmt.Errorf("--max-connections: %d is neither 0, for half of the files that the process may have, nor between %d and %d, three quarters of them: raise their limit (ulimit -n) first",
			o.Connections, leastConnections, all*3/4))
	}
	if o.WatchBytes != 0 && o.WatchBytes < leastWatchBytes {
		errs = append(errs, fmt.Errorf("--tenant-watch-bytes: %d is neither 0, no limit, nor %d or more", o.WatchBytes, leastWatchBytes))
	}
	if burst := o.Allowance.Burst; burst > 0 && o.Allowance.RequestsPerSecond == 0 {
		errs = append(errs, fmt.Errorf("--tenant-requests-burst: %d has no effect without --tenant-requests-per-second", burst))
	} else if burst > 0 && burst < o.Allowance.RequestsPerSecond {
		errs = append(errs, fmt.Errorf("--tenant-requests-burst: %d is less than --tenant-requests-per-second, %d",
			burst, o.Allowance.RequestsPerSecond))
	}
	if size := o.Size.BodyBytes; size < leastBodyBytes || size > mostBodyBytes {
		errs = append(errs, fmt.Errorf("--tenant-body-bytes: %d is not between %d and %d, which is what the server reads of anybody",
			size, leastBodyBytes, mostBodyBytes))
	}
	return errs
}
