package spaces

// What runs at once for one tenant, see Bursts.
const (
	// burstPerCore is how many requests with small bodies run at once on each core.
	burstPerCore = 8
	// burstBytes is how many bytes of a body count as much as a request.
	burstBytes = 10_000
)
