package main

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/properties"
	"github.com/tenantry/tenantry/internal/search/query"
)

// asked is what is asked of what a query finds. It returns how many there are of it.
type asked func(ctx context.Context, s *index.Snapshot, scope index.Scope, q query.Query) (int64, error)

// page asks for a page with its count.
func page(limit int) asked {
	return func(ctx context.Context, s *index.Snapshot, scope index.Scope, q query.Query) (int64, error) {
		found, err := pageOf(ctx, s, scope, q, limit)
		return found.Count, err
	}
}

func pageOf(ctx context.Context, s *index.Snapshot, scope index.Scope, q query.Query, limit int) (index.Found, error) {
	return s.Select(ctx, index.Selection{Scopes: []index.Scope{scope}, Query: q, Limit: limit})
}

// maxValues is how many values a completion has at most, as in answers of the service.
const maxValues = 10_000

// values asks for the values of a property.
func values(property string) asked {
	return func(ctx context.Context, s *index.Snapshot, scope index.Scope, q query.Query) (int64, error) {
		found, err := s.Values(ctx, []index.Scope{scope}, q, property, maxValues)
		return int64(len(found)), err
	}
}

// names asks for the names of properties.
func names(ctx context.Context, s *index.Snapshot, scope index.Scope, q query.Query) (int64, error) {
	found, err := s.Names(ctx, []index.Scope{scope}, q)
	return int64(len(found)), err
}

// related asks for a page with its count, and for what is related to it in the steps of the service: whatever has a
// link to an object of the page or is led to by one, then the owners of owners and what is owned by what is owned,
// twice.
func related(limit int) asked {
	return func(ctx context.Context, s *index.Snapshot, scope index.Scope, q query.Query) (int64, error) {
		found, err := pageOf(ctx, s, scope, q, limit)
		if err != nil {
			return 0, err
		}
		r := &relatives{s: s, scope: scope, known: map[index.After]bool{}}
		for i := range found.Rows {
			r.known[found.Rows[i].Place()] = true
		}
		of := len(r.known)
		owners, owned, err := r.step(ctx, found.Rows, true, true, true)
		for range 2 {
			if err == nil && len(owners) > 0 {
				owners, _, err = r.step(ctx, owners, false, true, false)
			}
			if err == nil && len(owned) > 0 {
				_, owned, err = r.step(ctx, owned, false, false, true)
			}
		}
		return int64(len(r.known) - of), err
	}
}

// relatives are the places of what was found.
type relatives struct {
	s     *index.Snapshot
	scope index.Scope
	known map[index.After]bool
}

// step looks for what rows are related to (to), and what is to them (from): by every relation, or by owners alone.
func (r *relatives) step(ctx context.Context, rows []index.Row, every, to, from bool) (owners, owned []index.Row, err error) {
	ends := index.Ends{Owners: map[string][]string{}, Links: map[string][]string{}, Of: map[schema.GroupResource][]string{}}
	uids, sources, selectors := map[string]bool{}, map[string]bool{}, map[string][]map[string]string{}
	for i := range rows {
		row := &rows[i]
		for n := range row.Links {
			if uid, ok := row.Links[n].UID(); ok && to && !uids[uid] {
				uids[uid] = true
				ends.Owners[row.Namespace] = append(ends.Owners[row.Namespace], uid)
			} else if place, ok := row.Links[n].Place(); ok && every {
				ends.Places = append(ends.Places, place)
			}
		}
		if from {
			sources[row.UID] = true
			ends.Links[row.Namespace] = append(ends.Links[row.Namespace], index.ToPlace(row.Resource, row.Namespace, row.Name), index.ToUID(row.UID))
		}
		if every && row.Resource == pods && len(selectors[row.Namespace]) == 0 {
			ends.Of[services] = append(ends.Of[services], row.Namespace)
		}
		if every && row.Resource == pods {
			selectors[row.Namespace] = append(selectors[row.Namespace], row.Labels)
		}
	}
	err = r.s.Related(ctx, r.scope, ends, func(row *index.Row) (bool, error) {
		if r.known[row.Place()] || row.Resource == services && !selects(row, selectors[row.Namespace]) {
			return false, nil
		}
		r.known[row.Place()] = true
		if uids[row.UID] {
			owners = append(owners, *row)
		} else if uid, _ := ownerOf(row); sources[uid] {
			owned = append(owned, *row)
		}
		return true, nil
	})
	return owners, owned, err
}

// ownerOf returns the UID of the owner of an object.
func ownerOf(row *index.Row) (string, bool) {
	for i := range row.Links {
		if row.Links[i].Relation == properties.OwnedBy {
			return row.Links[i].UID()
		}
	}
	return "", false
}

// selects reports whether a Service selects an object with some labels.
func selects(service *index.Row, all []map[string]string) bool {
	for _, labels := range all {
		if labels["app"] == service.Selector["app"] {
			return true
		}
	}
	return false
}
