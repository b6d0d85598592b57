package kubecontrollers

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	deploymentutil "k8s.io/kubernetes/pkg/controller/deployment/util"
)

// selectorInformers are those of everything that selects pods, with objects of each selector.
func selectorInformers(tb testing.TB, namespace string, selectors []*metav1.LabelSelector) informers.SharedInformerFactory {
	tb.Helper()
	f := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	apps := f.Apps().V1()
	for i, s := range selectors {
		meta := metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("s", i)}
		controller := &corev1.ReplicationController{ObjectMeta: meta}
		if s != nil {
			controller.Spec.Selector = s.MatchLabels
		}
		for informer, obj := range map[cache.SharedIndexInformer]any{
			apps.ReplicaSets().Informer():                     &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: s}},
			apps.StatefulSets().Informer():                    &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: s}},
			apps.Deployments().Informer():                     &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: s}},
			f.Batch().V1().Jobs().Informer():                  &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Selector: s}},
			f.Policy().V1().PodDisruptionBudgets().Informer(): &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{Selector: s}},
			f.Core().V1().ReplicationControllers().Informer(): controller,
		} {
			if err := informer.GetStore().Add(obj); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return f
}

// names returns the sorted names of objects, and nil for an error.
func names[T any](tb testing.TB, objects []T, err error) []string {
	tb.Helper()
	if err != nil {
		if len(objects) > 0 {
			tb.Errorf("got %d objects and %v", len(objects), err)
		}
		return nil
	}
	found := []string{}
	for _, o := range objects {
		object, ok := any(o).(metav1.Object)
		if !ok {
			object = any(&o).(metav1.Object)
		}
		found = append(found, object.GetName())
	}
	slices.Sort(found)
	return found
}

// selections returns what selects a pod, by listers of this package or of upstream.
func selections(tb testing.TB, f informers.SharedInformerFactory, ours bool) func(pod *corev1.Pod) map[string][]string {
	tb.Helper()
	apps := f.Apps().V1()
	deployments, replicaSets := apps.Deployments().Lister(), apps.ReplicaSets().Lister()
	controllers, jobs := f.Core().V1().ReplicationControllers().Lister(), f.Batch().V1().Jobs().Lister()
	sets, budgets := apps.StatefulSets().Lister(), f.Policy().V1().PodDisruptionBudgets().Lister()
	note := func(*appsv1.ReplicaSet) {}
	if ours {
		noError := func(err error) {
			if err != nil {
				tb.Fatal(err)
			}
		}
		debts := newDebts(1)
		debts.now = func() time.Time { return time.Unix(0, 0).Add(time.Since(time.Unix(0, 0)) * 1000) } // nobody has debts
		d, noted, err := newDeployments(apps.Deployments(), apps.ReplicaSets(), debts)
		noError(err)
		deployments, note = d.Lister(), noted.Informer().(notedReplicaSets).handled.Store
		rs, err := newReplicaSets(apps.ReplicaSets(), debts)
		noError(err)
		rc, err := newReplicationControllers(f.Core().V1().ReplicationControllers(), debts)
		noError(err)
		j, err := newJobs(f.Batch().V1().Jobs(), debts)
		noError(err)
		ss, err := newStatefulSets(apps.StatefulSets(), apps.ControllerRevisions().Lister(), debts)
		noError(err)
		b, err := newBudgets(f.Policy().V1().PodDisruptionBudgets())
		noError(err)
		replicaSets, controllers, jobs, sets, budgets = rs.Lister(), rc.Lister(), j.Lister(), ss.Lister(), b.Lister()
	}
	return func(pod *corev1.Pod) map[string][]string {
		foundSets, errSets := replicaSets.GetPodReplicaSets(pod)
		foundControllers, errControllers := controllers.GetPodControllers(pod)
		foundJobs, errJobs := jobs.GetPodJobs(pod)
		foundStateful, errStateful := sets.GetPodStatefulSets(pod)
		foundBudgets, errBudgets := budgets.GetPodPodDisruptionBudgets(pod)
		rs := &appsv1.ReplicaSet{ObjectMeta: pod.ObjectMeta}
		note(rs)
		foundDeployments, errDeployments := deploymentutil.GetDeploymentsForReplicaSet(deployments, rs)
		return map[string][]string{
			"ReplicaSets":            names(tb, foundSets, errSets),
			"ReplicationControllers": names(tb, foundControllers, errControllers),
			"Jobs":                   names(tb, foundJobs, errJobs),
			"StatefulSets":           names(tb, foundStateful, errStateful),
			"PodDisruptionBudgets":   names(tb, foundBudgets, errBudgets),
			"Deployments":            names(tb, foundDeployments, errDeployments),
		}
	}
}

// randomSelectors returns selectors with few labels, so that many match, some of them empty
// or invalid.
func randomSelectors(count int) []*metav1.LabelSelector {
	word := func() string { return string(rune('a' + rand.IntN(3))) }
	value := func() string {
		if rand.IntN(20) == 0 {
			return "not a value"
		}
		return word()
	}
	selectors := []*metav1.LabelSelector{nil, {}, {MatchLabels: map[string]string{"not a key": "a"}}}
	for range count {
		s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
		for range rand.IntN(3) {
			s.MatchLabels[word()] = value()
		}
		for range rand.IntN(3) {
			r := metav1.LabelSelectorRequirement{Key: word(), Operator: []metav1.LabelSelectorOperator{"In", "NotIn", "Exists", "DoesNotExist", "Equals"}[min(rand.IntN(20)/4, rand.IntN(10))]}
			for range rand.IntN(4) {
				r.Values = append(r.Values, value())
			}
			if r.Operator == metav1.LabelSelectorOpExists || r.Operator == metav1.LabelSelectorOpDoesNotExist {
				r.Values = nil
			}
			s.MatchExpressions = append(s.MatchExpressions, r)
		}
		selectors = append(selectors, s)
	}
	return selectors
}

// TestSelectors checks that the listers find what upstream's find.
func TestSelectors(t *testing.T) {
	f := selectorInformers(t, "a|ns", randomSelectors(1_000))
	ours, upstreams := selections(t, f, true), selections(t, f, false)
	found := map[string]int{}
	for _, namespace := range []string{"a|ns", "b|ns"} {
		for _, set := range []map[string]string{
			nil, {}, {"a": "a"}, {"b": "b"}, {"c": "c"}, {"a": "a", "b": "b"}, {"a": "c", "b": "b", "c": "a"}, {"d": "d"}, {"a": "d"},
		} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p", Labels: set}}
			got := ours(pod)
			if diff := cmp.Diff(upstreams(pod), got); diff != "" {
				t.Errorf("a pod in %s with labels %v (-upstream +got):\n%s", namespace, set, diff)
			}
			for kind, names := range got {
				found[kind] += len(names)
			}
		}
	}
	for kind, count := range found {
		if count < 100 {
			t.Errorf("%d %s were found", count, kind)
		}
	}
	changed := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "b|ns", Name: "s0"},
		Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"d": "d"}}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "b|ns", Name: "p", Labels: map[string]string{"d": "d"}}}
	store := f.Apps().V1().ReplicaSets().Informer().GetStore()
	for _, change := range []struct {
		of   func(any) error
		want []string
	}{{store.Add, []string{"s0"}}, {store.Update, []string{"s0"}}, {store.Delete, nil}} {
		if err := change.of(changed); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(change.want, ours(pod)["ReplicaSets"]); diff != "" {
			t.Errorf("after a change: %s", diff)
		}
	}
}

// manySelectors returns equal selectors with a number of values.
func manySelectors(count, values int) []*metav1.LabelSelector {
	s := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	if values > 0 {
		s.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpIn}}
		for i := range values {
			s.MatchExpressions[0].Values = append(s.MatchExpressions[0].Values, fmt.Sprintf("%060d", i))
		}
	}
	return slices.Repeat([]*metav1.LabelSelector{s}, count)
}

// BenchmarkSelectors looks up what selects a pod, for each of which there are 5,000 objects.
func BenchmarkSelectors(b *testing.B) {
	for _, values := range []int{0, 100} {
		f := selectorInformers(b, "a|ns", manySelectors(5_000, values))
		for _, ours := range []bool{false, true} {
			selected := selections(b, f, ours)
			for _, app := range []string{"web", "other"} {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a|ns", Name: "p", Labels: map[string]string{"app": app, "tier": fmt.Sprintf("%060d", 99)}}}
				b.Run(fmt.Sprintf("values=%d/ours=%v/app=%s", values, ours, app), func(b *testing.B) {
					for b.Loop() {
						selected(pod)
					}
				})
			}
		}
	}
}

// TestSelectorsAreNotParsed checks that an event of a pod takes a fraction of the allocations of upstream's
// listers, whatever the selectors are.
func TestSelectorsAreNotParsed(t *testing.T) {
	f := selectorInformers(t, "a|ns", manySelectors(300, 100))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a|ns", Name: "p", Labels: map[string]string{"app": "web", "tier": fmt.Sprintf("%060d", 99)}}}
	allocations := map[bool]float64{}
	for _, ours := range []bool{true, false} {
		selected := selections(t, f, ours)
		allocations[ours] = testing.AllocsPerRun(1, func() {
			if found := selected(pod); len(found["ReplicaSets"]) != 300 {
				t.Fatalf("found %v", slices.Collect(maps.Keys(found)))
			}
		})
	}
	if allocations[true]*5 > allocations[false] {
		t.Errorf("a pod's event makes %v allocations, and %v with upstream's listers", allocations[true], allocations[false])
	}
}

// TestControllersSelect checks that the controllers get these listers.
func TestControllersSelect(t *testing.T) {
	f := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	e := &environment{shared: &shared{informers: f, discovery: &fakediscovery.FakeDiscovery{}}, debts: newDebts(1), client: kubernetes.NewForConfigOrDie(&rest.Config{})}
	for _, build := range []func(context.Context, *environment) (runner, error){newReplicaSet, newReplication, newStatefulSet, newJob, newDisruption, newDeployment} {
		if _, err := build(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	apps := f.Apps().V1()
	for _, informer := range []cache.SharedIndexInformer{
		apps.ReplicaSets().Informer(), apps.StatefulSets().Informer(), apps.Deployments().Informer(), f.Batch().V1().Jobs().Informer(),
		f.Policy().V1().PodDisruptionBudgets().Informer(), f.Core().V1().ReplicationControllers().Informer(),
	} {
		if _, exists := informer.GetIndexer().GetIndexers()[bySelector]; !exists {
			t.Errorf("%T: a controller parses all selectors for each event", informer)
		}
	}
}

// TestDeploymentsAreShort checks that the controller, which parses the selectors that it gets,
// gets short ones, and those alone that select the ReplicaSet.
func TestDeploymentsAreShort(t *testing.T) {
	f := selectorInformers(t, "a|ns", append(manySelectors(2, 100), &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}))
	deployments, noted, err := newDeployments(f.Apps().V1().Deployments(), f.Apps().V1().ReplicaSets(), newDebts(1))
	if err != nil {
		t.Fatal(err)
	}
	noted.Informer().(notedReplicaSets).handled.Store(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a|ns", Labels: map[string]string{"app": "web", "tier": fmt.Sprintf("%060d", 99)}}})
	got, err := deployments.Lister().Deployments("a|ns").List(labels.Everything())
	if diff := cmp.Diff([]string{"s0", "s1"}, names(t, got, err)); diff != "" {
		t.Error(diff)
	}
	for _, d := range got {
		if len(d.Spec.Selector.MatchLabels) != 1 || len(d.Spec.Selector.MatchExpressions) > 0 {
			t.Errorf("%s has a selector of %d labels and %d expressions", d.Name, len(d.Spec.Selector.MatchLabels), len(d.Spec.Selector.MatchExpressions))
		}
	}
}
