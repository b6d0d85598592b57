package kubecontrollers

import (
	"time"
)

// What tenants owe for the time of workers, see debts. It counts all time that a worker has worked for a tenant; the
// slow time of package spaces counts only what single requests take beyond a quarter of a second. Both hold at once:
// one makes items wait in the queue, the other ends requests.
const (
	// debtDivisor is the share of the workers' time that a tenant has when others wait, as a divisor.
	debtDivisor = 4
	// maxDebt is how long a tenant waits at most, but for an item that it has taken.
	maxDebt = 10 * time.Second
	// maxOwed is how much a tenant owes at most, but for an item that it has taken.
	maxOwed = 2 * maxDebt
	// contention is how long a tenant's work is a reason to make others wait.
	contention = 5 * time.Second
	// maxWorked is after what time a worker sends no more requests for an item. Some thousand have been answered by then.
	maxWorked = 5 * time.Second
)

// When what has failed comes again.
const (
	// firstRetry is later than upstream's when that does not wait. Each is twice as late as the one before, up to
	// lastRetry, which is upstream's.
	firstRetry = time.Second
	lastRetry  = 1000 * time.Second
	// retryInterval and retryBurst are how often, and how many at once, objects of one tenant come again: as often as
	// upstream has those of all tenants.
	retryInterval = 100 * time.Millisecond
	retryBurst    = 100
)

// How what waits because of a debt comes back, see fairInformer.
const (
	// releasedAtOnce is how many parked objects the controller hears of at once, so that others' wait for
	// few in its queue. releasePeriod is when it hears of more if it is not done with one before.
	releasedAtOnce = 16
	releasePeriod  = time.Second
	// An object counts as given for so long if no worker takes it, which a handler may not want, or if a worker is
	// not done with it: one that waits for a webhook is not to keep all others of its tenant waiting.
	queuedTime  = 5 * time.Second
	workingTime = time.Minute
	// manyGiven is how many there are when those are forgotten that count no more.
	manyGiven = 1024
)

// What an aggregating role of a tenant's space adds up at most. Beyond it, it keeps the
// rules it has.
const (
	// maxAggregatedRules is also the most that admission allows.
	maxAggregatedRules = 1_000
	// maxSelectedRules counts equal rules each time.
	maxSelectedRules = 10_000
	maxRoleWork      = 2_000_000
	// maxSpaceWork is that of all aggregating roles of a space.
	maxSpaceWork = 10 * maxRoleWork
	// comparisonTime is what a unit of work takes, and applyTime what the request after it takes.
	comparisonTime = 200 * time.Nanosecond
	applyTime      = 20 * time.Millisecond
)

// What checking the types of a policy may take, see policyWork.
const (
	// maxPolicyWork is that of a policy of a tenant's space whose types are checked.
	maxPolicyWork = 500_000
	// kindWork is to find the schema of a kind, environmentWork to make what an expression
	// is compiled in, variableWork to declare a variable.
	kindWork        = 2_000
	environmentWork = 600
	variableWork    = 20
	// workTime is what a byte takes.
	workTime = 10 * time.Microsecond
	// maxPolicyTime is for how long the types of a policy are looked up, and how long one request for them takes.
	maxPolicyTime = 5 * time.Second
)
