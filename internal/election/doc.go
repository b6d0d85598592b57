// Package election has one of several processes do something: the one that holds a Lease.
//
// client-go's elector is for processes that end when they have lost their lease. One that goes on needs more, which is
// here:
//
//   - The lease is given up when the work has ended, and not while it ends.
//   - The work is told to end when no renewal that began in the last RenewDeadline has succeeded, or when
//     somebody else is seen to have the lease, and not up to twice as late.
//   - Its clients send nothing any more from then on (Term.Fence), whether it ends or not.
//
// It knows nothing of what is done. It must not be used where nobody looks whether the work ends.
package election
