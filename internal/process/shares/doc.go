// Package shares gives parties, such as tenants, a share of the workers of a controller, so that
// one for which workers wait does not block them all:
//
//   - An item is the unit of work of a worker: a request, or all parallel requests that have one
//     owner. An item that takes longer than WaitThreshold counts as waiting, and accepts no
//     further requests. At most share items of a party wait, and always one may; further ones
//     are ended at once, with an error after which the controller tries again later.
//     The items of all parties that wait leave as many workers as one share is for others;
//     a party takes the place of one that has more of them.
//   - The time that an item takes beyond freeTime is slow time of the party. It is forgotten
//     at the rate of the share of the workers' time. As long as there is some, a party has no
//     more concurrent items than its share. A share of less than one worker is no item, so that
//     after an item that waited for long, it is the turn of others.
//
// A party for which nobody waits has no slow time, and no limit of its items. There is an account
// only while a party has requests or slow time.
package shares
