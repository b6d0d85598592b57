package flowcontrol

import "time"

// What is measured rather than derived is here. The figures are those of
// test/bench/RESULTS.md, "The noisy neighbour", on two cores: the p99 of one tenant's gets
// beside another tenant that does nothing but the one thing. What depends on the number of
// cores is a flag (Options.Concurrency).
const (
	// othersFor is for how long after another tenant's request a tenant is not alone.
	othersFor = time.Second
	// aloneAfter is after how long without others a tenant has wide lanes, and wide is
	// how many times as wide they are. Nobody has to wait for it then, and requests
	// that wait for etcd leave the cores to others.
	aloneAfter = 10 * time.Second
	wide       = 8

	// Seats rest after a request for as long as it took, but no longer than such a
	// request takes that did not wait for a core, etcd or its client. After large
	// answers, twice as much is done outside of seats.
	readRest, writeRest, largeReadRest = time.Millisecond, 5 * time.Millisecond, 100 * time.Millisecond

	// waitingRequests is how many requests of a tenant may wait for a lane.
	waitingRequests = 200
	// patience is after how long a write that is still executed may well wait itself,
	// for etcd or for its client, and another may begin. But it may be at work, too: so
	// only a few others may, see lane.spare. A write that is known to wait for a webhook
	// leaves at once: what the webhook sends may have to begin.
	patience = 200 * time.Millisecond
	// bodyPatience is after how long a write whose client still sends it makes room.
	bodyPatience = patience
	// mostLate is how many requests, as a multiple of the lane's capacity, are
	// executed in all, most of which wait for webhooks or their clients.
	mostLate = 8

	// perWatch is for how long a write keeps its seat after its end, for each watch
	// that sees it. Telling one takes a core about a tenth of that; with two seats
	// for each core, watches take a fifth of the machine at most. Few watches are too few
	// to be worth waiting for.
	perWatch, fewWatches = 250 * time.Microsecond, 10

	// largeSeats is from how many of upstream's seats on, of 100 kB each, a read is large.
	largeSeats = 4
	// uncachedBytes is the size of objects that no watch cache holds, of which
	// upstream knows the number alone: events.
	uncachedBytes = 1000

	// heavyBody is from how many bytes on a write is taken to be costly before it has
	// been executed. Those of clients at work have a few thousand.
	heavyBody = 64 << 10
	// costlyTime is how long a costly write keeps a core busy at least.
	costlyTime = 50 * time.Millisecond
	// costlyWeight is how many seats a costly write takes: with a seat for each core,
	// such writes of a tenant take half of the cores, and others find one.
	costlyWeight = 2
	// costlyPatience is patience with a costly write, which is known to be at work.
	costlyPatience = 25 * patience
	// costlyRest bounds how long a seat rests after a costly write.
	costlyRest = time.Second
	// definitionAftermath is what a write of a definition causes after its answer, as
	// a multiple of what it took itself: its schema is read, validated and published
	// by half a dozen controllers.
	definitionAftermath = 5
	// halfLife is after how long what requests have cost counts for half.
	halfLife = 5 * time.Second
)
