package flowcontrol

import "time"

// These values were measured, on two cores (test/bench/RESULTS.md, "The noisy neighbour"):
// the p99 of one tenant's gets beside another tenant with one kind of load. Values that
// depend on the number of cores are flags (Options.Concurrency).
const (
	// othersFor is how long after another tenant's request a tenant is not alone.
	othersFor = time.Second
	// aloneAfter is the time without others after which a tenant has aloneFactor times as
	// many seats: no other tenant waits for them, and requests that wait for etcd leave the
	// cores to others.
	aloneAfter  = 10 * time.Second
	aloneFactor = 8
	// mostAlone is how many seats aloneFactor gives at most: with three of the level "tenants" each, they are half of it.
	mostAlone = 32

	// Seats are held after a request for as long as it took, but not longer than such a
	// request takes that waits for no core, etcd or client. After large responses, twice as
	// much work is done outside of seats.
	readHold, writeHold, largeReadHold = time.Millisecond, 5 * time.Millisecond, 100 * time.Millisecond

	// levelPatience is for how long a request in all may wait for its client and webhooks while it has seats of its
	// priority level, and levelTime for how long it may have them. The tenants of a server share them, whatever the
	// machine.
	levelPatience, levelTime = overdueAfter, 2 * time.Second

	// maxQueued is how many requests of a tenant and class may wait, and of how many of a flow the bodies are awaited.
	maxQueued = 200
	// overdueAfter is the time after which a write is likely to wait for etcd or for its
	// client, so that another one may begin. But it may be running, too: so only a few
	// others may begin (fairQueue.spare). A write that is known to wait for a webhook
	// releases its seats at once, because the webhook's own requests may need them.
	overdueAfter = 200 * time.Millisecond
	// bodyTimeout is the time after which a write is blocked whose client still sends the body.
	bodyTimeout = overdueAfter
	// bodyPatience is for how long a body may not have come since the server reads it, with a second more for each
	// bodyRate bytes of it: a client of the slowest networks sends more. All of a body comes before the last of
	// bodyMargin parts of the time for its request, so that the answer is that of the body.
	bodyPatience         = 20 * time.Second
	bodyRate, bodyMargin = 500, 12
	// bodyRest is for how long what nobody reads of a body is waited for.
	bodyRest = 5 * time.Second
	// seatPatience is for how long a request whose body was slow waits for seats, as upstream has others wait.
	seatPatience = 15 * time.Second
	// usualBody is how many bytes most bodies have at most.
	usualBody = 4 << 10
	// maxImpersonating is how many requests of a tenant wait to be authorized to impersonate. Each has up to 1,280
	// checks, and as many strings and references in memory: 400 KiB.
	maxImpersonating = 50
	// leastConnections is the least number of connections that is taken: clients of Kubernetes have several each.
	leastConnections = 100
	// manyConnections is how many connections clients have at most, if no flag says so: 2 GiB, if all are silent ones
	// by TLS.
	manyConnections = 32 << 10
	// maxExecuting is how many seats all executed requests may take, as a multiple of the queue's
	// capacity. Most of them wait for webhooks or their clients.
	maxExecuting = 8

	// perWatch is how long a write keeps its seat after its end for each watch of what it
	// writes. To notify one takes a core about a tenth of that; with two seats for each
	// core, watches take at most a fifth of the machine. Up to fewWatches are ignored.
	perWatch, fewWatches = 250 * time.Microsecond, 10

	// largeSeats is the number of upstream's seats, of 100 kB each, from which on a read is large.
	largeSeats = 4
	// uncachedBytes is the assumed size of objects without a watch cache (events), of which
	// upstream only knows the number.
	uncachedBytes = 1000

	// largeBody is the size of a body in bytes from which on a write is assumed to be costly.
	// Usual bodies have a few thousand bytes.
	largeBody = 64 << 10
	// costlyTime is the least time for which a costly write keeps a core busy.
	costlyTime = 50 * time.Millisecond
	// costlySeats is how many seats a costly write takes: with a seat for each core,
	// costly writes of a tenant take half of the cores, and leave some to others.
	costlySeats = 2
	// costlyOverdueAfter is overdueAfter of a costly write, which is known to be running.
	costlyOverdueAfter = 25 * overdueAfter
	// costlyHold bounds how long a seat is held after a costly write.
	costlyHold = time.Second
	// collectAfter is how long after the answer to a write that has not ended garbage is
	// collected, to find out whether it has ended since. What waited for a webhook or for etcd
	// ends with the answer.
	collectAfter = 5 * time.Second
	// mostUnended ends what a write waits for, whatever timeout its client asks for: upstream's
	// default for all of a request.
	mostUnended = time.Minute
	// forgetAfter is after what time a write that was answered before its end has its seats no more, whatever refers to
	// it: what it may run at all has ended a minute before.
	forgetAfter = 2 * mostUnended
	// definitionFollowUp is the work after a write of a definition, as a multiple of the
	// write's own: half a dozen controllers read, validate and publish its schema.
	definitionFollowUp = 5
	// largeEvent is the size of a write in bytes from which on a watch is charged for what it holds.
	// Each watch takes about as much anyway.
	largeEvent = 64 << 10
	// eventGrace is how long a watch may hold a large event when its tenant exceeds its limit, and
	// manyEventsGrace when it does so manyEvents times: a client that reads has read it by then.
	eventGrace, manyEventsGrace = 10 * time.Second, time.Second
	manyEvents                  = 2
	// watchSweepInterval is how often watches of a tenant that exceeds its limit are ended.
	watchSweepInterval = 250 * time.Millisecond
	// endTimeout is the time in which a watch that is ended writes its end, unless it is not read.
	// disconnectTimeout is the time after which its connection is closed.
	endTimeout, disconnectTimeout = time.Second, 3 * time.Second
	// halfLife is the time after which a cost counts for half.
	halfLife = 5 * time.Second
)
