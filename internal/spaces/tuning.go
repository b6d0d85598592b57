package spaces

import (
	"time"
)

// The shares of tenants in a controller's workers, see shares.
const (
	// freeTime is how long an item may take before it is slow.
	freeTime = 250 * time.Millisecond
	// waitThreshold is how long an item may take until it counts as waiting.
	waitThreshold = time.Second
	// shareDivisor is the share of the workers, as a divisor.
	shareDivisor = 4
	// maxSlowTime is how much slow time counts at most, unless the last item took longer.
	maxSlowTime = 10 * time.Second
)

// What runs at once for one tenant, see Bursts.
const (
	// burstPerCore is how many requests with small bodies run at once on each core.
	burstPerCore = 8
	// burstBytes is how many bytes of a body count as much as a request.
	burstBytes = 10_000
)
