package index

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/internal/search/query"
	"github.com/tenantry/tenantry/internal/search/rights"
)

func number(name, value string) query.Property {
	return query.Property{Name: name, Value: value, Type: query.Number}
}

// propertied are rows with properties of all types, in two namespaces of acme and in globex.
func propertied() []Row {
	rows := []Row{
		row("acme", pods, "Pod", "a", "p1"), row("acme", pods, "Pod", "a", "p2"), row("acme", pods, "Pod", "b", "p3"),
		row("acme", deployments, "Deployment", "a", "d1"), row("globex", pods, "Pod", "a", "other"), row("acme", configMaps, "ConfigMap", "b", "c1"),
	}
	rows[0].Status, rows[0].Created = "Running", time.Date(2024, 5, 31, 23, 0, 0, 0, time.UTC).Unix()
	rows[0].Properties = []query.Property{number("restarts", "10"), {Name: "node", Value: "n1"}, {Name: "image", Value: "nginx:1"}, {Name: "image", Value: "sidecar"}}
	rows[1].Status, rows[1].Created = "Failed", time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	rows[1].Properties = []query.Property{number("restarts", "9"), {Name: "started", Value: "2024-05-31T22:00:00Z", Type: query.Time}, {Name: "node", Value: "100%_x"}}
	rows[2].Labels = map[string]string{"app": "Web"}
	rows[2].Properties = []query.Property{number("restarts", "-1"), {Name: "started", Value: "2023-05-31T22:00:00Z", Type: query.Time}, number("capacity", "10Gi")}
	rows[3].Labels = map[string]string{"app": "web"}
	rows[3].Properties = []query.Property{number("capacity", "900Mi"), {Name: "restarts", Value: "many"}}
	rows[4].Properties = []query.Property{number("restarts", "5"), {Name: "secret", Value: "of globex"}}
	return rows
}

func TestProperties(t *testing.T) { onEach(t, testProperties) }

func testProperties(t *testing.T, open func(t testing.TB, rows ...Row) *Index) {
	x := open(t, propertied()...)
	for text, want := range map[string]string{
		"restarts:10":                 "p1",
		"restarts:>9":                 "p1",
		"restarts:>=9":                "p1,p2",
		"restarts:<9":                 "p3",
		"restarts:<=-1":               "p3",
		"restarts:>=-5 restarts:<9.5": "p2,p3",
		"restarts:>9,<0":              "p1,p3",
		"restarts:>2024-01-01":        "", // they are no times
		"restarts:many":               "d1",
		"restarts:!10":                "d1,p2,p3",
		"restarts:!*":                 "",
		"started:day":                 "p2",
		"started:<month":              "p3",
		"started:>=2024-05-31 started:<2024-06-01": "p2",
		"started:>5":                      "", // they are no numbers
		"capacity:>1Gi":                   "p3",
		"capacity:<1Gi":                   "d1",
		"name:>5":                         "",
		"kind:>5":                         "",
		"label:>5":                        "",
		"image:nginx*":                    "p1",
		"image:sidecar":                   "p1",
		"images:sidecar":                  "p1",
		"node:100%_x":                     "p2",
		"node:100*x":                      "p2",
		"node:100??x":                     "",
		"node:!n1":                        "p2",
		"status:!Running":                 "c1,d1,p2,p3",
		"created:day":                     "p1",
		"created:<2024-02-01":             "p2", // what has no time is not older
		"created:>2024-05-01,<2024-02-01": "p1,p2",
		"sidecar":                         "p1",
		"nginx:1 n1":                      "", // a filter of what nothing has
		`"nginx:1" n1`:                    "p1",
		"pods":                            "p1,p2,p3",
		"globex":                          "",
		"secret:*":                        "",
		"Link:*":                          "",
		"restarts>:*":                     "", // is the form in which they are compared
	} {
		var names []string
		for _, place := range find(t, x, Selection{Scopes: []Scope{{Visible: everything}}}, text) {
			names = append(names, place[strings.LastIndex(place, "/")+1:])
		}
		slices.Sort(names)
		if got := strings.Join(names, ","); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// view reads something in a snapshot.
func view(t *testing.T, x *Index, read func(ctx context.Context, s *Snapshot) error) {
	t.Helper()
	if err := x.View(t.Context(), func(s *Snapshot) error { return read(t.Context(), s) }); err != nil {
		t.Fatal(err)
	}
}

func TestValues(t *testing.T) { onEach(t, testValues) }

func testValues(t *testing.T, open func(t testing.TB, rows ...Row) *Index) {
	x := open(t, propertied()...)
	inA := &rights.Set{
		Groups:  []rights.Group{{Resources: sets.New(pods), Namespaces: sets.New("a")}},
		NamedIn: map[rights.Range]sets.Set[string]{{Resource: deployments, Namespace: "a"}: sets.New("d1")},
	}
	for name, tc := range map[string]struct {
		visible        *rights.Set
		text, property string
		want           string
	}{
		"kinds":                {everything, "", "kind", "ConfigMap,Deployment,Pod"},
		"kinds of some":        {everything, "label:app=*", "kind", "Deployment,Pod"},
		"kinds of few":         {inA, "", "kind", "Deployment,Pod"},
		"namespaces":           {everything, "", "namespace", "a,b"},
		"groups":               {everything, "", "apigroup", "apps"},
		"the space":            {everything, "", "space", "acme"},
		"no space":             {everything, "name:none", "space", ""},
		"resources":            {everything, "", "resource", "configmaps,deployments,pods"},
		"names":                {inA, "", "name", "d1,p1,p2"},
		"times":                {everything, "", "created", "2024-01-01T00:00:00Z,2024-05-31T23:00:00Z"},
		"labels":               {everything, "", "label", "app=Web,app=web"},
		"statuses":             {everything, "", "status", "Failed,Running"},
		"several":              {everything, "", "image", "nginx:1,sidecar"},
		"what it cannot see":   {inA, "", "label", "app=web"},
		"of another space":     {everything, "", "secret", ""},
		"what is compared":     {everything, "", "restarts>", ""},
		"links":                {everything, "", "Link", ""},
		"nothing":              {&rights.Set{}, "", "kind", ""},
		"nobody knows":         {everything, "", "color", ""},
		"a filter of its own":  {everything, "color:red", "kind", ""},
		"numbers, as text":     {everything, "", "restarts", "-1,10,9,many"},
		"of what has a filter": {everything, "status:Failed", "restarts", "9"},
	} {
		view(t, x, func(ctx context.Context, s *Snapshot) error {
			got, err := s.Values(ctx, []Scope{{Space: "acme", Visible: tc.visible}}, parse(t, tc.text), tc.property, 100)
			if strings.Join(got, ",") != tc.want || got == nil {
				t.Errorf("%s: %v, want %s", name, got, tc.want)
			}
			return err
		})
	}
	view(t, x, func(ctx context.Context, s *Snapshot) error {
		got, err := s.Values(ctx, []Scope{{Space: "acme", Visible: everything}}, query.Query{}, "name", 2)
		if len(got) != 2 {
			t.Errorf("%v of two", got)
		}
		return err
	})
	for _, tc := range []struct {
		visible    *rights.Set
		text, want string
	}{
		{everything, "", "apigroup,capacity,created,image,kind,label,name,namespace,node,resource,restarts,space,started,status"},
		{inA, "name:d1", "apigroup,capacity,created,kind,label,name,namespace,resource,restarts,space"},
		{inA, "name:p3", ""},
		{&rights.Set{}, "", ""},
	} {
		view(t, x, func(ctx context.Context, s *Snapshot) error {
			got, err := s.Names(ctx, []Scope{{Space: "acme", Visible: tc.visible}}, parse(t, tc.text))
			if strings.Join(got, ",") != tc.want || got == nil {
				t.Errorf("%q: %v, want %s", tc.text, got, tc.want)
			}
			return err
		})
	}
}

func TestOrders(t *testing.T) { onEach(t, testOrders) }

// testOrders reads pages in all orders, while something comes and goes elsewhere.
func testOrders(t *testing.T, open func(t testing.TB, rows ...Row) *Index) {
	x := open(t, propertied()...)
	few := &rights.Set{
		Whole:   sets.New(deployments),
		NamedIn: map[rights.Range]sets.Set[string]{{Resource: pods, Namespace: "a"}: sets.New("p1", "p2"), {Resource: pods, Namespace: "b"}: sets.New("p3")},
	}
	for text, want := range map[string]string{
		"":               "d1,p1,p2,p3",
		"name":           "d1,p1,p2,p3",
		"name desc":      "p3,p2,p1,d1",
		"kind desc":      "p1,p2,p3,d1",
		"namespace desc": "p3,d1,p1,p2",
		"resource desc":  "p1,p2,p3,d1",
		"apigroup":       "p1,p2,p3,d1",
		"apigroup desc":  "d1,p1,p2,p3",
		"space desc":     "d1,p1,p2,p3",
		"created":        "d1,p3,p2,p1",
		"created desc":   "p1,p2,d1,p3",
		"restarts":       "d1,p3,p2,p1",
		"restarts desc":  "p1,p2,p3,d1",
		"started desc":   "p2,p3,d1,p1",
		"status":         "d1,p3,p2,p1",
		"label desc":     "d1,p3,p1,p2",
		"capacity":       "p1,p2,d1,p3",
		"color desc":     "d1,p1,p2,p3",
	} {
		order, err := query.ParseOrder(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, visible := range []*rights.Set{{Whole: sets.New(pods, deployments)}, few} {
			for _, limit := range []int{1, 3, 100} {
				var names []string
				var after *After
				for page := 0; page == 0 || after != nil; page++ {
					found := selectOne(t, x, Selection{Scopes: []Scope{{Space: "acme", Visible: visible}}, Limit: limit, After: after, Order: order}, "kind:pod,deployment")
					if found.Count != 4 {
						t.Fatalf("%q: counted %d", text, found.Count)
					}
					for _, r := range found.Rows {
						names = append(names, r.Name)
					}
					after = nil
					if found.More {
						place := found.Rows[len(found.Rows)-1].Place()
						after = &place
					}
					r := row("acme", configMaps, "ConfigMap", "a", fmt.Sprint("passing", page))
					apply(t, x, Write{Key: keyOf(r), Rows: []Row{r}})
				}
				if got := strings.Join(names, ","); got != want {
					t.Errorf("%q by %d: %s, want %s", text, limit, got, want)
				}
			}
			found := selectOne(t, x, Selection{Scopes: []Scope{{Space: "acme", Visible: visible}}, Limit: 1, Offset: 2, Order: order}, "kind:pod,deployment")
			if got := found.Rows[0].Name; len(found.Rows) != 1 || got != strings.Split(want, ",")[2] {
				t.Errorf("%q from 2: %s", text, got)
			}
		}
	}
	found := selectOne(t, x, Selection{Scopes: []Scope{{Space: "acme", Visible: everything}}, Limit: 1, NoCount: true}, "")
	if found.Count != 0 || len(found.Rows) != 1 || !found.More {
		t.Errorf("without a count: %+v", found)
	}
	if found = selectOne(t, x, Selection{Scopes: []Scope{{Space: "acme", Visible: everything}}, Limit: 1, NoRows: true}, "kind:deployment"); found.Count != 1 || len(found.Rows) != 0 {
		t.Errorf("without rows: %+v", found)
	}
}

func TestRelated(t *testing.T) { onEach(t, testRelated) }

func testRelated(t *testing.T, open func(t testing.TB, rows ...Row) *Index) {
	rows := []Row{
		row("acme", deployments, "Deployment", "a", "owner"), row("acme", pods, "Pod", "a", "owned"), row("acme", pods, "Pod", "b", "elsewhere"),
		row("acme", configMaps, "ConfigMap", "a", "used"), row("acme", configMaps, "ConfigMap", "b", "used"), row("globex", pods, "Pod", "a", "owned"),
		row("acme", clusterRoles, "ClusterRole", "", "everywhere"),
	}
	rows[0].UID, rows[6].UID = "1", "6"
	for _, i := range []int{1, 2, 5} {
		rows[i].Links = []Link{{"ownedBy", ToUID("1")}, {"ownedBy", ToUID("6")}, {"attachedTo", ToPlace(configMaps, rows[i].Namespace, "used")}}
	}
	x := open(t, rows...)
	place := func(r Row) After { return After{Resource: r.Resource.String(), Namespace: r.Namespace, Name: r.Name} }
	named := &rights.Set{
		Whole:   sets.New(clusterRoles),
		NamedIn: map[rights.Range]sets.Set[string]{{Resource: pods, Namespace: "a"}: sets.New("owned"), {Resource: configMaps, Namespace: "a"}: sets.New("used")},
		Named:   map[schema.GroupResource]sets.Set[string]{deployments: sets.New("owner")},
	}
	for name, tc := range map[string]struct {
		visible *rights.Set
		ends    Ends
		want    string
	}{
		"places":               {everything, Ends{Places: []After{place(rows[3]), place(rows[0])}}, "a/owner,a/used"},
		"places of few":        {named, Ends{Places: []After{place(rows[3]), place(rows[4]), place(rows[0])}}, "a/owner,a/used"},
		"places, not seen":     {&rights.Set{Whole: sets.New(pods)}, Ends{Places: []After{place(rows[3])}}, ""},
		"owners":               {everything, Ends{Owners: map[string][]string{"a": {"1", "6"}}}, "/everywhere,a/owner"},
		"owners of few":        {named, Ends{Owners: map[string][]string{"a": {"1", "6"}}}, "/everywhere,a/owner"},
		"owners elsewhere":     {everything, Ends{Owners: map[string][]string{"b": {"1", "6"}}}, "/everywhere"},
		"what is owned":        {everything, Ends{Links: map[string][]string{"a": {ToUID("1")}}}, "a/owned"},
		"what is owned of few": {named, Ends{Links: map[string][]string{"a": {ToUID("1")}}}, "a/owned"},
		"owned by the cluster": {everything, Ends{Links: map[string][]string{"": {ToUID("6")}}}, "a/owned,b/elsewhere"},
		"owned, and not seen":  {&rights.Set{Whole: sets.New(deployments)}, Ends{Links: map[string][]string{"": {ToUID("6")}}}, ""},
		"what is attached":     {everything, Ends{Links: map[string][]string{"b": {ToPlace(configMaps, "b", "used")}}}, "b/elsewhere"},
		"all in a namespace":   {everything, Ends{Of: map[schema.GroupResource][]string{pods: {"b"}, configMaps: {"a", "b"}}}, "a/used,b/elsewhere,b/used"},
		"few in a namespace":   {named, Ends{Of: map[schema.GroupResource][]string{pods: {"a", "b"}}}, "a/owned"},
		"nothing":              {everything, Ends{}, ""},
		"what nobody may see":  {&rights.Set{}, Ends{Places: []After{place(rows[3])}, Owners: map[string][]string{"a": {"1"}}}, ""},
	} {
		found := sets.New[string]()
		view(t, x, func(ctx context.Context, s *Snapshot) error {
			return s.Related(ctx, Scope{Space: "acme", Visible: tc.visible}, tc.ends, func(r *Row) (bool, error) {
				found.Insert(r.Namespace + "/" + r.Name)
				return true, nil
			})
		})
		if got := strings.Join(sets.List(found), ","); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	for _, link := range rows[1].Links {
		uid, isUID := link.UID()
		at, isPlace := link.Place()
		if isUID && uid != "1" && uid != "6" || !isUID && (!isPlace || at != place(rows[3])) {
			t.Errorf("%+v leads to %q, %+v", link, uid, at)
		}
	}
}

func TestExactValues(t *testing.T) { onEach(t, testExactValues) }

// testExactValues compares values and orders of many rows with what is said of each in Go.
func testExactValues(t *testing.T, open func(t testing.TB, rows ...Row) *Index) {
	x, rows := open(t), manyRows(newRandom())
	writes := make([]Write, len(rows))
	for i := range rows {
		rows[i].Properties = append([]query.Property{number("restarts", fmt.Sprint(i%50))}, rows[i].Properties...)
		writes[i] = Write{Key: keyOf(rows[i]), Rows: rows[i : i+1]}
	}
	for batch := range slices.Chunk(writes, 700) {
		apply(t, x, batch...)
	}
	some := &rights.Set{
		Groups: []rights.Group{{Resources: sets.New(pods), Namespaces: sets.New("n1", "n3")}},
		Named:  map[schema.GroupResource]sets.Set[string]{deployments: sets.New("web-3", "web-30", "web-300")},
		Denied: sets.New("n5"),
	}
	for _, visible := range []*rights.Set{everything, some} {
		for _, text := range []string{"", "status:Running", "label:app=app-3", "restarts:>40", "label:app=app-3 restarts:<10", "tier=web", "label:app=app-1*"} {
			q := parse(t, text)
			var matching []*Row
			for i := range rows {
				r := &rows[i]
				if r.Space == "acme" && visible.Allows(r.Resource, r.Namespace, r.Name) && matchesInGo(r, text) {
					matching = append(matching, r)
				}
			}
			for property, of := range map[string]func(r *Row) []string{
				"kind":      func(r *Row) []string { return []string{r.Kind} },
				"namespace": func(r *Row) []string { return []string{r.Namespace} },
				"image": func(r *Row) []string {
					all := []string{}
					for _, p := range r.Properties[1:] {
						all = append(all, p.Value)
					}
					return all
				},
				"restarts": func(r *Row) []string { return []string{r.Properties[0].Value} },
				"status":   func(r *Row) []string { return []string{r.Status} },
				"label": func(r *Row) []string {
					all := []string{}
					for key, value := range r.Labels {
						all = append(all, key+"="+value)
					}
					return all
				},
			} {
				want := sets.New[string]()
				for _, r := range matching {
					want.Insert(of(r)...)
				}
				want.Delete("")
				view(t, x, func(ctx context.Context, s *Snapshot) error {
					got, err := s.Values(ctx, []Scope{{Space: "acme", Visible: visible}}, q, property, 10_000)
					if diff := gocmp.Diff(sets.List(want), got); diff != "" {
						t.Errorf("%q, %s: %s", text, property, diff)
					}
					for limit := 1; err == nil && limit < len(want) && property != "image"; limit = 2*limit + 1 {
						got, err = s.Values(ctx, []Scope{{Space: "acme", Visible: visible}}, q, property, limit)
						if diff := gocmp.Diff(sets.List(want)[:limit], got); diff != "" {
							t.Errorf("%q, the first %d of %s: %s", text, limit, property, diff)
						}
					}
					return err
				})
			}
			names := sets.New[string]()
			for _, r := range matching {
				names.Insert("apigroup", "created", "kind", "name", "namespace", "resource", "space")
				for _, p := range r.properties() {
					if isAskedFor(p.name) {
						names.Insert(p.name)
					}
				}
			}
			view(t, x, func(ctx context.Context, s *Snapshot) error {
				got, err := s.Names(ctx, []Scope{{Space: "acme", Visible: visible}}, q)
				if diff := gocmp.Diff(sets.List(names), got); diff != "" {
					t.Errorf("names of %q: %s", text, diff)
				}
				return err
			})
			slices.SortFunc(matching, func(a, b *Row) int {
				return cmp.Or(-cmp.Compare(numberOf(a), numberOf(b)), a.Ref().Compare(b.Ref()))
			})
			var got, want []string
			for _, r := range matching {
				want = append(want, keyOf(*r))
			}
			var after *After
			for more := true; more; {
				found := selectOne(t, x, Selection{Scopes: []Scope{{Space: "acme", Visible: visible}}, Limit: 400, After: after, Order: query.Order{Property: "restarts", Descending: true}}, text)
				for _, r := range found.Rows {
					got = append(got, keyOf(r))
				}
				if more = found.More; more {
					place := found.Rows[len(found.Rows)-1].Place()
					after = &place
				}
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("%q: %s", text, diff)
			}
		}
	}
}

func numberOf(r *Row) int {
	n := 0
	_, _ = fmt.Sscan(r.Properties[0].Value, &n)
	return n
}

// matchesInGo reports whether a row matches one of the queries of the test.
func matchesInGo(r *Row, text string) bool {
	for word := range strings.FieldsSeq(text) {
		matches := false
		switch name, value, _ := strings.Cut(word, ":"); name {
		case "status":
			matches = r.Status == value
		case "label":
			key, v, _ := strings.Cut(value, "=")
			if beginning, isBeginning := strings.CutSuffix(v, "*"); isBeginning {
				matches = strings.HasPrefix(r.Labels[key], beginning)
			} else {
				matches = r.Labels[key] == v
			}
		case "restarts":
			limit := 0
			_, _ = fmt.Sscan(value[1:], &limit)
			matches = value[0] == '>' && numberOf(r) > limit || value[0] == '<' && numberOf(r) < limit
		default:
			matches = r.Labels["tier"] == "web"
		}
		if !matches {
			return false
		}
	}
	return true
}
