package index

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/internal/search/query"
	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/tenant"
)

var (
	configMaps   = schema.GroupResource{Resource: "configmaps"}
	pods         = schema.GroupResource{Resource: "pods"}
	deployments  = schema.GroupResource{Group: "apps", Resource: "deployments"}
	clusterRoles = schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}
)

var everything = &rights.Set{Whole: sets.New(configMaps, pods, deployments, clusterRoles)}

func apply(t testing.TB, x *Index, writes ...Write) {
	t.Helper()
	if _, err := x.Apply(t.Context(), writes, x.last+1); err != nil {
		t.Fatal(err)
	}
}

func keyOf(row Row) string {
	return fmt.Sprintf("%s/%s/%s/%s", row.Space, row.Resource, row.Namespace, row.Name)
}

func row(space tenant.Name, resource schema.GroupResource, kind, namespace, name string) Row {
	return Row{Space: space, Resource: resource, Kind: kind, Namespace: namespace, Name: name}
}

// Select returns the rows of a selection, of one state of the index.
func (x *Index) Select(ctx context.Context, s Selection) (found Found, err error) {
	err = x.View(ctx, func(snapshot *Snapshot) (err error) {
		found, err = snapshot.Select(ctx, s)
		return err
	})
	return found, err
}

// find returns the places of what is found in the space acme.
func find(t *testing.T, x *Index, s Selection, text string) []string {
	t.Helper()
	var err error
	if s.Query, err = query.Parse(text, time.Date(2024, 6, 1, 0, 0, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	if s.Scopes[0].Space == "" {
		s.Scopes[0].Space = "acme"
	}
	if s.Limit == 0 {
		s.Limit = 1000
	}
	found, err := x.Select(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if s.After == nil && !found.More && found.Count != int64(len(found.Rows)) {
		t.Errorf("%q: %d rows of %d", text, len(found.Rows), found.Count)
	}
	places := []string{}
	for _, r := range found.Rows {
		if r.Space != s.Scopes[0].Space {
			t.Errorf("%q: a row of space %q", text, r.Space)
		}
		places = append(places, fmt.Sprintf("%s %s/%s", r.Resource.Resource, r.Namespace, r.Name))
	}
	return places
}

func TestFilters(t *testing.T) { onEach(t, testFilters) }

func testFilters(t *testing.T, open func(t testing.TB, rows ...Row) *Index) {
	web := row("acme", pods, "Pod", "default", "web")
	web.Labels, web.Status, web.Created = map[string]string{"app": "Web", "tier": "100%_x"}, "Running", time.Date(2024, 5, 31, 12, 0, 0, 0, time.UTC).Unix()
	db := row("acme", deployments, "Deployment", "data", "db_1")
	db.Annotations, db.Created = map[string]string{"about": "it's [old]"}, time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	other := row("globex", pods, "Pod", "default", "web")
	x := open(t, web, db, other)
	const webIs, dbIs = "pods default/web", "deployments data/db_1"
	for text, want := range map[string][]string{
		"":                                    {dbIs, webIs},
		"kind:pod":                            {webIs},
		"kind:Pod,Deployment":                 {dbIs, webIs},
		"kind:POD":                            {},
		"kind:!pod":                           {dbIs},
		"kind:dep*":                           {dbIs},
		"apigroup:apps":                       {dbIs},
		"resource:pods":                       {webIs},
		"namespace:!data name:w*":             {webIs},
		"name:*b*":                            {dbIs, webIs},
		"name:db?1":                           {},
		"name:db*_1":                          {dbIs},
		"name:d%":                             {},
		"label:app=Web":                       {webIs},
		"label:app=web":                       {},
		"label:app":                           {},
		"label:app=*":                         {webIs},
		"label:tier=*%_x":                     {webIs},
		"label:!app=Web":                      {dbIs},
		"annotation:about=*[old]":             {dbIs},
		"annotation:about=*[o]ld]":            {},
		`annotation:"about=it's [old]"`:       {dbIs},
		"status:Running":                      {webIs},
		"status:!Running":                     {dbIs},
		"created:day":                         {webIs},
		"created:>=2023-01-01 created:<month": {dbIs},
		"created:2023-01-01":                  {dbIs},
		"created:!2023-01-01":                 {webIs},
		"space:acme":                          {dbIs, webIs},
		"space:a*e":                           {dbIs, webIs},
		"space:globex":                        {},
		"space:!acme":                         {},
		"color:red":                           {},
		"color:!red":                          {},
		"WEB":                                 {webIs},
		"app=web running":                     {webIs},
		"web data":                            {},
		"it's":                                {dbIs},
		"%":                                   {webIs},
		"acme db":                             {dbIs},
		"podweb":                              {},
		`name:"x' OR 1=1 --"`:                 {},
		`"' OR '1'='1"`:                       {},
		`name:"\"}]"`:                         {},
	} {
		if diff := cmp.Diff(want, find(t, x, Selection{Scopes: []Scope{{Visible: everything}}}, text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestRights(t *testing.T) { onEach(t, testRights) }

func testRights(t *testing.T, open func(t testing.TB, rows ...Row) *Index) {
	var rows []Row
	for _, space := range []tenant.Name{"acme", "globex"} {
		for _, namespace := range []string{"a", "b"} {
			for _, name := range []string{"x", "y", "*"} {
				rows = append(rows, row(space, configMaps, "ConfigMap", namespace, name), row(space, pods, "Pod", namespace, name))
			}
		}
		rows = append(rows, row(space, clusterRoles, "ClusterRole", "", "x"))
	}
	x := open(t, rows...)
	in := func(resource schema.GroupResource, namespaces ...string) rights.Group {
		return rights.Group{Resources: sets.New(resource), Namespaces: sets.New(namespaces...)}
	}
	many := &rights.Set{Groups: []rights.Group{}}
	for i := range 2 * maxGroups {
		many.Groups = append(many.Groups, in(pods, fmt.Sprint("n", i)))
	}
	many.Groups = append(many.Groups, in(configMaps, "b"))
	for name, tc := range map[string]struct {
		visible *rights.Set
		want    string
	}{
		"nothing":          {&rights.Set{}, ""},
		"empty sets":       {&rights.Set{Whole: sets.New[schema.GroupResource](), Groups: []rights.Group{{}}}, ""},
		"a resource":       {&rights.Set{Whole: sets.New(clusterRoles)}, "clusterroles /x"},
		"a namespace":      {&rights.Set{Groups: []rights.Group{in(pods, "a")}}, "pods a/*,pods a/x,pods a/y"},
		"no namespace":     {&rights.Set{Groups: []rights.Group{in(clusterRoles, ""), in(pods, "c")}}, "clusterroles /x"},
		"a name":           {&rights.Set{Named: map[schema.GroupResource]sets.Set[string]{pods: sets.New("x")}}, "pods a/x,pods b/x"},
		"a name of a star": {&rights.Set{Named: map[schema.GroupResource]sets.Set[string]{pods: sets.New("*")}}, "pods a/*,pods b/*"},
		"a name in one":    {&rights.Set{NamedIn: map[rights.Range]sets.Set[string]{{Resource: pods, Namespace: "b"}: sets.New("x")}}, "pods b/x"},
		"twice": {&rights.Set{
			Whole: sets.New(clusterRoles), Groups: []rights.Group{in(pods, "a")},
			Named:   map[schema.GroupResource]sets.Set[string]{pods: sets.New("x"), clusterRoles: sets.New("x")},
			NamedIn: map[rights.Range]sets.Set[string]{{Resource: pods, Namespace: "b"}: sets.New("x")},
		}, "clusterroles /x,pods a/*,pods a/x,pods a/y,pods b/x"},
		"denied": {&rights.Set{Whole: sets.New(pods), Denied: sets.New("a")}, "pods b/*,pods b/x,pods b/y"},
		"many":   {many, "configmaps b/*,configmaps b/x,configmaps b/y"},
	} {
		if got := strings.Join(find(t, x, Selection{Scopes: []Scope{{Visible: tc.visible}}}, ""), ","); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
		for _, r := range rows {
			place := fmt.Sprintf("%s %s/%s", r.Resource.Resource, r.Namespace, r.Name)
			if allowed := tc.visible.Allows(r.Resource, r.Namespace, r.Name); r.Space == "acme" && allowed != strings.Contains(","+tc.want+",", ","+place+",") {
				t.Errorf("%s: %s allowed: %v", name, place, allowed)
			}
		}
	}
}

func TestShared(t *testing.T) { onEach(t, testShared) }

func testShared(t *testing.T, open func(t testing.TB, rows ...Row) *Index) {
	x := open(t, row(Shared, clusterRoles, "ClusterRole", "", "view"), row(Shared, clusterRoles, "ClusterRole", "", "edit"), row("acme", clusterRoles, "Own", "", "view"))
	for _, tc := range []struct {
		s    Selection
		text string
		want []string
	}{
		{Selection{Scopes: []Scope{{Visible: everything, Shared: true}}}, "", []string{"clusterroles /edit", "clusterroles /view"}},
		{Selection{Scopes: []Scope{{Visible: everything, Shared: true}}}, "kind:clusterrole", []string{"clusterroles /edit"}}, // its own takes the place
		{Selection{Scopes: []Scope{{Visible: everything}}}, "", []string{"clusterroles /view"}},
		{Selection{Scopes: []Scope{{Visible: everything, Shared: true, Space: "globex"}}}, "kind:clusterrole", []string{"clusterroles /edit", "clusterroles /view"}},
		{Selection{Scopes: []Scope{{Visible: &rights.Set{}, Shared: true}}}, "", []string{}},
	} {
		if diff := cmp.Diff(tc.want, find(t, x, tc.s, tc.text)); diff != "" {
			t.Errorf("%+v: %s", tc, diff)
		}
	}
}

func TestPages(t *testing.T) { onEach(t, testPages) }

func testPages(t *testing.T, open func(t testing.TB, rows ...Row) *Index) {
	x := open(t)
	for i := range 10 {
		r := row("acme", pods, "Pod", fmt.Sprint("n", i%3), fmt.Sprint("p", i))
		apply(t, x, Write{Key: keyOf(r), Rows: []Row{r}})
	}
	all := find(t, x, Selection{Scopes: []Scope{{Visible: everything}}}, "")
	var after *After
	var paged []string
	for len(paged) < len(all) {
		paged = append(paged, find(t, x, Selection{Scopes: []Scope{{Visible: everything}}, Limit: 3, After: after}, "")...)
		namespace, name, _ := strings.Cut(strings.TrimPrefix(paged[len(paged)-1], "pods "), "/")
		after = &After{Resource: "pods", Namespace: namespace, Name: name}
	}
	if diff := cmp.Diff(all, paged); diff != "" {
		t.Error(diff)
	}
}

func TestWrites(t *testing.T) { onEach(t, testWrites) }

func testWrites(t *testing.T, open func(t testing.TB, rows ...Row) *Index) {
	before := row("acme", pods, "Pod", "default", "web")
	before.Labels = map[string]string{"app": "web"}
	x := open(t, before)
	after := before
	after.Labels, after.Status = map[string]string{"app": "db"}, "Running"
	apply(t, x, Write{Key: keyOf(before), Rows: []Row{after}}, Write{Key: "other", Rows: []Row{row("acme", pods, "Pod", "a", "other")}})
	for text, want := range map[string][]string{"label:app=web": {}, "label:app=db status:Running": {"pods default/web"}, "other": {"pods a/other"}} {
		if diff := cmp.Diff(want, find(t, x, Selection{Scopes: []Scope{{Visible: everything}}}, text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
	apply(t, x, Write{Key: keyOf(before)})
	if diff := cmp.Diff([]string{"pods a/other"}, find(t, x, Selection{Scopes: []Scope{{Visible: everything}}}, "")); diff != "" {
		t.Error(diff)
	}
	var properties int
	if err := x.write.QueryRowContext(t.Context(), `SELECT count(*) FROM properties`).Scan(&properties); err != nil || properties > 0 {
		t.Errorf("%d properties of objects that have gone, %v", properties, err)
	}
	// All or nothing: a turn of writing that is over.
	x.epoch++
	_, err := x.Apply(t.Context(), []Write{{Key: keyOf(before), Rows: []Row{before}}}, x.last+1)
	if !errors.Is(err, ErrOvertaken) || len(find(t, x, Selection{Scopes: []Scope{{Visible: everything}}}, "")) != 1 {
		t.Errorf("half of the writes were done: %v", err)
	}
}

func TestQueriesEnd(t *testing.T) { onEach(t, testQueriesEnd) }

func testQueriesEnd(t *testing.T, open func(t testing.TB, rows ...Row) *Index) {
	x := open(t, row("acme", pods, "Pod", "default", "web"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.Select(ctx, Selection{Scopes: []Scope{{Space: "acme", Visible: everything}}, Limit: 1}); err == nil {
		t.Error("a query outlives its request")
	}
}

func TestNewRow(t *testing.T) {
	secret := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "s", Namespace: "default", UID: "1", Labels: map[string]string{"a": "b\x00c"},
			Annotations:   map[string]string{"about": "x\xff", "kubectl.kubernetes.io/last-applied-configuration": "hidden"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "hidden"}},
		},
		Data: map[string][]byte{"hidden": []byte("hidden")}, StringData: map[string]string{"hidden": "hidden"}, Type: "hidden",
	}
	got, err := NewRow("acme", schema.GroupResource{Resource: "secrets"}, secret, []string{"about", "missing"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Row{Space: "acme", Resource: schema.GroupResource{Resource: "secrets"}, Kind: "Secret", Namespace: "default", Name: "s",
		Details: Details{UID: "1", Labels: map[string]string{"a": "b c"}, Annotations: map[string]string{"about": "x\ufffd"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: corev1.PodStatus{Phase: "Running"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: []string{"hidden"}, Env: []corev1.EnvVar{{Name: "A", Value: "hidden"}}}}}}
	if got, err = NewRow("acme", pods, pod, nil, []query.Property{{Name: "status", Value: "Running"}}); err != nil || got.Status != "Running" {
		t.Errorf("got %+v, %v", got, err)
	}
	stored, err := got.store("key")
	if err != nil || strings.Contains(stored.details+got.text(), "hidden") {
		t.Errorf("%s, %v", stored.details, err)
	}
}

// BenchmarkSelect searches one of many spaces, each with a thousand objects.
func BenchmarkSelect(b *testing.B) {
	for _, spaces := range []int{1, 100} {
		x := openSQLite(b)
		for n := range spaces {
			writes := make([]Write, 0, 1000)
			for i := range cap(writes) {
				r := row(tenant.Name(fmt.Sprint("t", n)), pods, "Pod", fmt.Sprint("n", i%10), fmt.Sprint("pod-", i))
				r.Labels, r.Status = map[string]string{"app": fmt.Sprint("app-", i%20), "tier": "web"}, "Running"
				writes = append(writes, Write{Key: keyOf(r), Rows: []Row{r}})
			}
			apply(b, x, writes...)
		}
		for name, text := range map[string]string{"filter": "label:app=app-7", "keyword": "app-7", "everything": ""} {
			b.Run(fmt.Sprintf("%s/spaces=%d", name, spaces), func(b *testing.B) {
				q, err := query.Parse(text, time.Now())
				if err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					if found, err := x.Select(b.Context(), Selection{Scopes: []Scope{{Space: "t0", Visible: everything}}, Query: q, Limit: 100}); err != nil || found.Count == 0 {
						b.Fatal(found, err)
					}
				}
			})
		}
	}
}

// TestLargePages has rows that show much: a page of them ends before its limit, and the next one goes on behind it.
func TestLargePages(t *testing.T) {
	const all = 12
	x := openSQLite(t)
	for i := range all {
		r := row("acme", configMaps, "ConfigMap", "a", fmt.Sprintf("r%02d", i))
		r.Labels = map[string]string{"much": strings.Repeat("x", MaxPage/8)}
		apply(t, x, Write{Key: keyOf(r), Rows: []Row{r}})
	}
	var after *After
	seen := 0
	for page := 0; ; page++ {
		found, err := x.Select(t.Context(), Selection{Scopes: []Scope{{Space: "acme", Visible: everything}}, Limit: 1000, After: after})
		if err != nil || found.Count != all {
			t.Fatalf("%d rows in all, %v", found.Count, err)
		}
		for i := range found.Rows {
			if want := fmt.Sprintf("r%02d", seen); found.Rows[i].Name != want {
				t.Fatalf("row %d is %s", seen, found.Rows[i].Name)
			}
			seen++
		}
		if !found.More {
			break
		}
		if len(found.Rows) > 9 {
			t.Fatalf("a page has %d rows", len(found.Rows))
		}
		last := found.Rows[len(found.Rows)-1]
		after = &After{Resource: last.Resource.String(), Namespace: last.Namespace, Name: last.Name}
	}
	if seen != all {
		t.Errorf("%d rows of %d", seen, all)
	}
}

// TestBudget reads ever more of one state, in each of the ways that there are: none reads more than an answer may.
func TestBudget(t *testing.T) {
	const each = MaxRead / 8
	x := openSQLite(t)
	owner := ToUID("1")
	for i := range 10 {
		r := row("acme", configMaps, "ConfigMap", fmt.Sprint("n", i), "r")
		r.Properties = []query.Property{{Name: "much", Value: fmt.Sprint(i, strings.Repeat("x", each))}}
		r.Links = []Link{{"ownedBy", owner}}
		apply(t, x, Write{Key: keyOf(r), Rows: []Row{r}})
	}
	scope := Scope{Space: "acme", Visible: everything}
	for name, read := range map[string]func(ctx context.Context, s *Snapshot) error{
		"pages": func(ctx context.Context, s *Snapshot) error {
			_, err := s.Select(ctx, Selection{Scopes: []Scope{{Space: "acme", Visible: everything}}, Limit: 1, NoCount: true})
			return err
		},
		"sorted pages": func(ctx context.Context, s *Snapshot) error {
			_, err := s.Select(ctx, Selection{Scopes: []Scope{{Space: "acme", Visible: everything}}, Limit: 1, Offset: 1})
			return err
		},
		"values": func(ctx context.Context, s *Snapshot) error {
			_, err := s.Values(ctx, []Scope{scope}, query.Query{}, "much", 1)
			return err
		},
		"related objects": func(ctx context.Context, s *Snapshot) error {
			kept := 0
			return s.Related(ctx, scope, Ends{Links: map[string][]string{"": {owner}}}, func(*Row) (bool, error) {
				kept++
				return kept == 1, nil
			})
		},
	} {
		times := 0
		view(t, x, func(ctx context.Context, s *Snapshot) error {
			var err error
			for ; err == nil && times < 100; times++ {
				err = read(ctx, s)
			}
			if !errors.Is(err, ErrTooMuch) {
				t.Errorf("%s: %v", name, err)
			}
			return nil
		})
		if times < 4 || times > 9 { // a page reads one row more
			t.Errorf("%s: read %d times", name, times)
		}
	}
	// All at once.
	if _, err := x.Select(t.Context(), Selection{Scopes: []Scope{{Space: "acme", Visible: everything}}, Limit: 10, Bytes: 2 * MaxRead}); !errors.Is(err, ErrTooMuch) {
		t.Error(err)
	}
	view(t, x, func(ctx context.Context, s *Snapshot) error {
		if values, err := s.Values(ctx, []Scope{scope}, query.Query{}, "much", 10); !errors.Is(err, ErrTooMuch) {
			t.Errorf("%d values, %v", len(values), err)
		}
		found, err := s.Select(ctx, Selection{Scopes: []Scope{{Space: "acme", Visible: everything}}, Limit: 10, Bytes: 1})
		if err == nil && (len(found.Rows) != 1 || !found.More || !found.Full) {
			t.Errorf("a small page has %d rows", len(found.Rows))
		}
		return nil
	})
}

// TestManyLabels has an object with more labels than are searched: the first ones are.
func TestManyLabels(t *testing.T) {
	labels := map[string]string{}
	for i := range 20_000 {
		labels[fmt.Sprintf("l%05d", i)] = "x"
	}
	r, err := NewRow("acme", configMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "r", Labels: labels}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if all := (&stored{Row: r}).stored(); len(all) != maxLabels || r.Labels["l00000"] != "x" || r.Labels["l00199"] != "x" {
		t.Errorf("%d properties are stored", len(all))
	}
}

// TestOddLinks has links whose names no database takes for text.
func TestOddLinks(t *testing.T) { onEach(t, testOddLinks) }

func testOddLinks(t *testing.T, open func(t testing.TB, rows ...Row) *Index) {
	to := ToPlace(configMaps, "a", "x\x00y\xff")
	pod := row("acme", pods, "Pod", "a", "odd")
	pod.Links = []Link{{"attachedTo", to}, {"ownedBy", ToUID("u\x00")}}
	x := open(t, pod, row("acme", pods, "Pod", "a", "other"))
	view(t, x, func(ctx context.Context, s *Snapshot) error {
		var found []string
		err := s.Related(ctx, Scope{Space: "acme", Visible: everything}, Ends{Links: map[string][]string{"a": {to}}, Owners: map[string][]string{"a": {"u\x00"}}}, func(r *Row) (bool, error) {
			found = append(found, r.Name)
			return true, nil
		})
		if diff := cmp.Diff([]string{"odd"}, found); diff != "" {
			t.Error(diff)
		}
		return err
	})
}

// TestPagesWhileRowsChange reads pages while others are written: what is there all the time is on one page, whatever
// the order.
func TestPagesWhileRowsChange(t *testing.T) { onEach(t, testPagesWhileRowsChange) }

func testPagesWhileRowsChange(t *testing.T, open func(t testing.TB, rows ...Row) *Index) {
	x, random := open(t), newRandom()
	write := func(i int, stays bool) Write {
		name := fmt.Sprintf("p%03d", i)
		r := row("acme", pods, "Pod", fmt.Sprint("n", i%3), name)
		if r.Status = fmt.Sprint(i % 5); !stays {
			r.Name, r.Status = name+"-comes-and-goes", fmt.Sprint(random.IntN(6))
			if random.IntN(2) == 0 {
				return Write{Key: keyOf(r)}
			}
		}
		return Write{Key: keyOf(r), Rows: []Row{r}}
	}
	var all []Write
	for i := range 60 {
		all = append(all, write(i, true))
	}
	apply(t, x, all...)
	for _, order := range []query.Order{{}, {Property: "name"}, {Property: "name", Descending: true}, {Property: "status"}, {Property: "status", Descending: true}, {Property: "namespace"}, {Property: "created"}} {
		seen := map[string]int{}
		var after *After
		for more := true; more; {
			var writes []Write
			for range 20 {
				writes = append(writes, write(random.IntN(60), false))
			}
			apply(t, x, writes...)
			found, err := x.Select(t.Context(), Selection{Scopes: []Scope{{Space: "acme", Visible: everything}}, Order: order, Limit: 7, After: after})
			if err != nil {
				t.Fatal(err)
			}
			for i := range found.Rows {
				seen[found.Rows[i].Name]++
			}
			if more = found.More; more {
				place := found.Rows[len(found.Rows)-1].Place()
				after = &place
			}
		}
		for i := range 60 {
			if name := fmt.Sprintf("p%03d", i); seen[name] != 1 {
				t.Errorf("by %+v: %s is on %d pages", order, name, seen[name])
			}
		}
	}
}
