package workloads

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/network"
	"github.com/tenantry/tenantry/test/env/suite"
)

// dry makes nothing.
var (
	dryCreate = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	dryPatch  = metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
	dryDelete = metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
)

// hostAccount is a client of a ServiceAccount of the host that has every right: what it may not is the policy's doing.
func hostAccount(name string) *kubernetes.Clientset {
	namespace, account, _ := strings.Cut(name, "/")
	config := tenantry.Config(tenant.System)
	config.Impersonate.UserName = "system:serviceaccount:" + namespace + ":" + account
	config.Impersonate.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated", "system:masters"}
	return suite.Client(config)
}

// stolen is a client of a ServiceAccount of the host with its own rights alone.
func stolen(account string) *kubernetes.Clientset {
	config := tenantry.Config(tenant.System)
	config.Impersonate.UserName = "system:serviceaccount:tenantry-workloads:" + account
	config.Impersonate.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:tenantry-workloads", "system:authenticated"}
	return suite.Client(config)
}

// namespaceFor is a namespace of the host for a space of an owner.
func namespaceFor(name string, owner names.Owner) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		names.InstallationLabel: "i", names.TenantUIDLabel: "t", "pod-security.kubernetes.io/enforce": "baseline",
	}}}
	for key, value := range owner.Labels() {
		n.Labels[key] = value
	}
	return n
}

// The requests of which the policy decides.

type request func(ctx context.Context, as *kubernetes.Clientset) error

func createsNamespace(owner names.Owner) request {
	return func(ctx context.Context, as *kubernetes.Clientset) error {
		_, err := as.CoreV1().Namespaces().Create(ctx, namespaceFor("tn-new", owner), dryCreate)
		return err
	}
}

func patchesNamespace(name, label, value string) request {
	return func(ctx context.Context, as *kubernetes.Clientset) error {
		_, err := as.CoreV1().Namespaces().Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"labels":{"`+label+`":"`+value+`"}}}`), dryPatch)
		return err
	}
}

func deletesNamespace(name string) request {
	return func(ctx context.Context, as *kubernetes.Clientset) error {
		return as.CoreV1().Namespaces().Delete(ctx, name, dryDelete)
	}
}

func createsSecret(namespace string) request {
	return func(ctx context.Context, as *kubernetes.Clientset) error {
		_, err := as.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tn-s"}}, dryCreate)
		return err
	}
}

func createsService(namespace string, kind corev1.ServiceType) request {
	return func(ctx context.Context, as *kubernetes.Clientset) error {
		_, err := as.CoreV1().Services(namespace).Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: corev1.ServiceSpec{Type: kind, Ports: []corev1.ServicePort{{Port: 80}}}}, dryCreate)
		return err
	}
}

func binds(namespace, to, account string) request {
	return func(ctx context.Context, as *kubernetes.Clientset) error {
		_, err := as.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "b"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "tenantry-workloads-namespace"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: to, Name: account}},
		}, dryCreate)
		return err
	}
}

func createsLease(namespace, name string) request {
	return func(ctx context.Context, as *kubernetes.Clientset) error {
		_, err := as.CoordinationV1().Leases(namespace).Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, dryCreate)
		return err
	}
}

// letsOutTo writes a policy with the pods of a component and an instance as peers, any of them if both are empty.
func letsOutTo(namespace, component, instance string) request {
	peers := []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}}}
	if component+instance != "" {
		peers[0].PodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{}}
		for key, value := range map[string]string{names.ComponentLabel: component, names.InstanceLabel: instance} {
			if value != "" {
				peers[0].PodSelector.MatchLabels[key] = value
			}
		}
	}
	return writesPolicy(networkingv1.NetworkPolicySpec{Egress: []networkingv1.NetworkPolicyEgressRule{{To: peers}}})
}

// letsIn writes a policy by which peers come in.
func letsIn(peers []networkingv1.NetworkPolicyPeer) request {
	return writesPolicy(networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{From: peers}}})
}

func writesPolicy(spec networkingv1.NetworkPolicySpec) request {
	return func(ctx context.Context, as *kubernetes.Clientset) error {
		_, err := as.NetworkingV1().NetworkPolicies("tn-one").Create(ctx, &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: spec}, dryCreate)
		return err
	}
}

// guardOf returns the peers that the guard of a ControlPlane lets in.
func guardOf(owner names.Owner) []networkingv1.NetworkPolicyPeer {
	return network.Guards(names.Namespace{}, network.NewRanges(nil, nil), network.Reachable{Owner: owner, Calls: true})[0].Spec.Ingress[0].From
}

var _ = Describe("The policy of a host", Ordered, func() {
	const (
		oneSyncer, oneConnect = "team-a/one.syncer.tenantry.io", "team-a/one.connect.tenantry.io"
		elsewhere             = "tenantry-workloads/syncer"
	)
	one, two, other := names.Owner{Namespace: "team-a", ControlPlane: "one"}, names.Owner{Namespace: "team-a", ControlPlane: "two"}, names.Owner{Namespace: "team-b", ControlPlane: "one"}
	none := names.Owner{}

	BeforeAll(func(ctx SpecContext) {
		for _, namespace := range []struct {
			of   *corev1.Namespace
			made *kubernetes.Clientset
		}{
			{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}, host},
			{namespaceFor("tn-one", one), hostAccount(oneSyncer)}, {namespaceFor("tn-two", two), hostAccount("team-a/two.syncer.tenantry.io")},
			{namespaceFor("tn-other", other), hostAccount("team-b/one.syncer.tenantry.io")}, {namespaceFor("tn-else", none), hostAccount(elsewhere)},
		} {
			_, err := namespace.made.CoreV1().Namespaces().Create(ctx, namespace.of, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func(ctx SpecContext) {
				Expect(host.CoreV1().Namespaces().Delete(ctx, namespace.of.Name, metav1.DeleteOptions{})).To(Succeed())
			})
		}
		Eventually(func() error { // the policy holds some time after it has been made
			return createsNamespace(two)(ctx, hostAccount(oneSyncer))
		}).ShouldNot(Succeed())
	})

	const somebodys, notASpaces, notTheTenants = "of somebody else", "is not one of a space", "peers of their tenant alone"
	DescribeTable("keeps the ServiceAccounts of each ControlPlane to what is its own", func(ctx SpecContext, account string, does request, why string) {
		err := does(ctx, hostAccount(account))
		if why == "" {
			Expect(err).NotTo(HaveOccurred())
			return
		}
		Expect(err).To(MatchError(SatisfyAll(ContainSubstring("'tenantry-workloads'"), ContainSubstring(why))))
	},
		Entry("it makes a namespace", oneSyncer, createsNamespace(one), ""),
		Entry("it makes one of its neighbour", oneSyncer, createsNamespace(two), somebodys),
		Entry("it makes one of its name elsewhere", oneSyncer, createsNamespace(other), somebodys),
		Entry("it makes one of nobody", oneSyncer, createsNamespace(none), somebodys),
		Entry("it changes its own", oneSyncer, patchesNamespace("tn-one", "a", "b"), ""),
		Entry("it changes its neighbour's", oneSyncer, patchesNamespace("tn-two", "a", "b"), somebodys),
		Entry("it changes that of its name elsewhere", oneSyncer, patchesNamespace("tn-other", "a", "b"), somebodys),
		Entry("it changes one of a Tenantry elsewhere", oneSyncer, patchesNamespace("tn-else", "a", "b"), somebodys),
		Entry("it gives its own away", oneSyncer, patchesNamespace("tn-one", names.ControlPlaneLabel, "two"), somebodys),
		Entry("it takes its neighbour's", oneSyncer, patchesNamespace("tn-two", names.ControlPlaneLabel, "one"), somebodys),
		Entry("it changes another", oneSyncer, patchesNamespace("kube-system", names.InstallationLabel, "i"), "not one of a space"),
		Entry("it deletes its own", oneSyncer, deletesNamespace("tn-one"), ""),
		Entry("it deletes its neighbour's", oneSyncer, deletesNamespace("tn-two"), somebodys),
		Entry("it makes a Secret in its own", oneSyncer, createsSecret("tn-one"), ""),
		Entry("it makes a Secret in its neighbour's", oneSyncer, createsSecret("tn-two"), somebodys),
		Entry("it makes a Secret in one of a Tenantry elsewhere", oneSyncer, createsSecret("tn-else"), somebodys),
		Entry("it makes a Secret beside itself", oneSyncer, createsSecret("team-a"), notASpaces),
		Entry("it gives rights to itself", oneSyncer, binds("tn-one", "team-a", "one.syncer.tenantry.io"), ""),
		Entry("it gives rights to its servers", oneSyncer, binds("tn-one", "team-a", "one.connect.tenantry.io"), ""),
		Entry("it gives rights to its neighbour", oneSyncer, binds("tn-one", "team-a", "two.syncer.tenantry.io"), "alone"),
		Entry("it gives rights to what is of its name elsewhere", oneSyncer, binds("tn-one", "team-b", "one.syncer.tenantry.io"), "alone"),
		Entry("it gives rights to anybody", oneSyncer, binds("tn-one", "team-a", "default"), "alone"),
		Entry("it gives rights in its neighbour's", oneSyncer, binds("tn-two", "team-a", "one.syncer.tenantry.io"), somebodys),
		Entry("it has its Lease", oneSyncer, createsLease("team-a", "one.syncer.tenantry.io"), ""),
		Entry("it takes its neighbour's Lease", oneSyncer, createsLease("team-a", "two.syncer.tenantry.io"), notASpaces),
		Entry("it takes the operator's Lease", oneSyncer, createsLease("team-a", "tenantry-operator"), notASpaces),
		Entry("it takes the Lease of a Tenantry elsewhere", oneSyncer, createsLease("tenantry-workloads", "tenantry-syncer-i"), notASpaces),
		Entry("its pods reach its servers", oneSyncer, letsOutTo("team-a", "control-plane", "one"), ""),
		Entry("its pods reach DNS", oneSyncer, letsOutTo("tenantry-workloads", "workloads-dns", ""), ""),
		Entry("its pods reach what else is beside DNS", oneSyncer, letsOutTo("tenantry-workloads", "", ""), notTheTenants),
		Entry("its pods reach the host's", oneSyncer, letsOutTo("kube-system", "", ""), notTheTenants),
		Entry("its pods reach servers of others", oneSyncer, letsOutTo("team-b", "control-plane", "one"), notTheTenants),
		Entry("its pods reach servers of its neighbour", oneSyncer, letsOutTo("team-a", "control-plane", "two"), notTheTenants),
		Entry("its pods reach what else is beside its servers", oneSyncer, letsOutTo("team-a", "syncer", "one"), notTheTenants),
		Entry("its pods reach all that is beside its servers", oneSyncer, letsOutTo("team-a", "", ""), notTheTenants),
		Entry("its servers call webhooks in pods", oneSyncer, letsIn(guardOf(one)), ""),
		Entry("servers of its neighbour call webhooks in its pods", oneSyncer, letsIn(guardOf(two)), notTheTenants),
		Entry("servers of its name elsewhere call webhooks in its pods", oneSyncer, letsIn(guardOf(other)), notTheTenants),
		Entry("its servers make a Service", oneConnect, createsService("tn-one", corev1.ServiceTypeClusterIP), ""),
		Entry("its servers make a load balancer", oneConnect, createsService("tn-one", corev1.ServiceTypeLoadBalancer), "load balancers are in namespaces with the label"),
		Entry("its servers make one in its neighbour's", oneConnect, createsService("tn-two", corev1.ServiceTypeClusterIP), somebodys),
		Entry("a Tenantry elsewhere makes a namespace", elsewhere, createsNamespace(none), ""),
		Entry("a Tenantry elsewhere makes one of a ControlPlane", elsewhere, createsNamespace(one), somebodys),
		Entry("a Tenantry elsewhere makes a Secret of its own", elsewhere, createsSecret("tn-else"), ""),
		Entry("a Tenantry elsewhere makes a Secret of a ControlPlane", elsewhere, createsSecret("tn-one"), somebodys),
		Entry("a ServiceAccount that is called nearly so", "team-a/one.syncer.tenantry.io.example", createsSecret("team-a"), ""),
		Entry("a ServiceAccount of another product", "team-a/syncer", createsSecret("team-a"), ""),
	)
})
