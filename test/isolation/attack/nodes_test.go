package attack

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// Nodes: the one that attacks, and the one that is attacked.
const attacker, victim = "node-attacker", "node-victim"

// nodeSpace is a space with pods of both nodes, as the attacker sees it.
type nodeSpace struct {
	space tenant.Name
	// admin is a client of the system's administrator, node one of the attacker.
	admin, node kubernetes.Interface
	// pods are the names and UIDs of pods in the namespace default, all of the account
	// default: own, doomed and evicted are the attacker's, foreign is the victim's.
	pods map[string]types.UID
}

var immediately = metav1.DeleteOptions{GracePeriodSeconds: new(int64)}

// nodeIn returns a client of a node in a space.
func nodeIn(n tenant.Name, name string) kubernetes.Interface {
	GinkgoHelper()
	config := tenantry.User(tenant.System, "system:node:"+name, "system:nodes")
	if n == tenant.System {
		return suite.Client(tenantry.ShortPath(config))
	}
	return suite.Client(tenantry.In(n, config))
}

// audienceIn returns the audience of the CSI driver of the volume in a space.
func audienceIn(n tenant.Name) string { return "vault-of-" + driverIn(n) }

func driverIn(n tenant.Name) string { return n.String() + ".csi.example.com" }

// newNodeSpace makes the pods of both nodes in a space, of which own has a volume whose
// driver wants tokens.
func newNodeSpace(ctx context.Context, n tenant.Name) *nodeSpace {
	GinkgoHelper()
	p := &nodeSpace{space: n, admin: tenantry.Client(tenant.System), node: nodeIn(n, attacker), pods: map[string]types.UID{}}
	storage := p.admin.StorageV1().CSIDrivers()
	if n != tenant.System {
		p.admin = suite.Client(tenantry.In(n, tenantry.Config(tenant.System)))
	}
	_, err := storage.Create(ctx, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: driverIn(n)},
		Spec:       storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: audienceIn(n)}}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(storage.Delete(ctx, driverIn(n), metav1.DeleteOptions{})).To(Succeed())
	})
	p.createVolume(ctx)
	for name, node := range map[string]string{"own": attacker, "doomed": attacker, "evicted": attacker, "foreign": victim} {
		p.createPod(ctx, name, node)
	}
	return p
}

// createVolume makes a claim "data" with a volume "disk" of the driver of the space.
func (p *nodeSpace) createVolume(ctx context.Context) {
	GinkgoHelper()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	_, err := p.admin.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "disk"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: "data"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driverIn(p.space), VolumeHandle: "disk"}},
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = p.admin.CoreV1().PersistentVolumeClaims("default").Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: modes, VolumeName: "disk", Resources: corev1.VolumeResourceRequirements{Requests: size}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	if p.space == tenant.System {
		DeferCleanup(func(ctx SpecContext) {
			Expect(p.admin.CoreV1().PersistentVolumeClaims("default").Delete(ctx, "data", metav1.DeleteOptions{})).To(Succeed())
			Expect(p.admin.CoreV1().PersistentVolumes().Delete(ctx, "disk", metav1.DeleteOptions{})).To(Succeed())
		})
	}
}

func (p *nodeSpace) createPod(ctx context.Context, name, node string) {
	GinkgoHelper()
	pods := p.admin.CoreV1().Pods("default")
	object := plainPod(name, "")
	if name == "own" {
		object.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	}
	Eventually(func() error { // when there is the service account
		created, err := pods.Create(ctx, object, metav1.CreateOptions{})
		if err == nil {
			p.pods[name] = created.UID
		}
		return err
	}).Should(Succeed())
	Expect(pods.Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})).To(Succeed())
	if p.space == tenant.System {
		DeferCleanup(func(ctx SpecContext) {
			Expect(pods.Delete(ctx, name, immediately)).To(Or(Succeed(), Satisfy(apierrors.IsNotFound)))
		})
	}
}

func plainPod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// mirrorPod is one as the kubelet of a node makes it.
func mirrorPod(name string, node *corev1.Node) *corev1.Pod {
	controls := true
	pod := plainPod(name, node.Name)
	pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: &controls}}
	return pod
}

// token asks for a token of the account of all pods as the attacker. An empty pod means
// a token that is bound to nothing.
func (p *nodeSpace) token(ctx context.Context, pod string, uid types.UID, audiences ...string) error {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	if pod != "" {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod, UID: uid}
	}
	_, err := p.node.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", request, metav1.CreateOptions{})
	return err
}

// patchStatus changes the status of a pod, or its metadata by that way.
func (p *nodeSpace) patchStatus(ctx context.Context, pod, patch string) error {
	_, err := p.node.CoreV1().Pods("default").Patch(ctx, pod, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	return err
}

func (p *nodeSpace) evict(ctx context.Context, pod string) error {
	return p.node.CoreV1().Pods("default").EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod}, DeleteOptions: &immediately})
}

func (p *nodeSpace) createdPod(ctx context.Context, pod *corev1.Pod) error {
	_, err := p.node.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	if err == nil {
		DeferCleanup(func(ctx SpecContext) {
			Expect(p.admin.CoreV1().Pods("default").Delete(ctx, pod.Name, immediately)).To(Succeed())
		})
	}
	return err
}

var _ = Describe("A node", Ordered, ContinueOnFailure, func() {
	var places []*nodeSpace
	var nodes map[string]*corev1.Node
	in := func(n tenant.Name) *nodeSpace {
		for _, p := range places {
			if (p.space == tenant.System) == (n == tenant.System) {
				return p
			}
		}
		return nil
	}
	refused := Satisfy(apierrors.IsForbidden)

	BeforeAll(func(ctx SpecContext) {
		nodes = map[string]*corev1.Node{}
		for _, name := range []string{attacker, victim} {
			node, err := nodeIn(tenant.System, name).CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred(), "it makes itself known")
			nodes[name] = node
			DeferCleanup(func(ctx SpecContext) {
				Expect(tenantry.Client(tenant.System).CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
			})
		}
		places = nil
		for _, n := range []tenant.Name{tenant.System, tenantry.NewTenant(ctx, "pods")} {
			places = append(places, newNodeSpace(ctx, n))
		}
		for _, p := range places {
			Eventually(func() error { return p.token(ctx, "own", p.pods["own"]) }).Should(Succeed(), "a token for its pod in %s", p.space)
		}
	}, NodeTimeout(suite.StartTimeout))

	DescribeTable("is refused, in the system space and in a tenant's,", func(ctx SpecContext, attack func(context.Context, *nodeSpace) error) {
		for _, p := range places {
			Expect(attack(ctx, p)).To(refused, "in %s", p.space)
		}
	},
		Entry("a pod of its own", func(ctx context.Context, p *nodeSpace) error {
			return p.createdPod(ctx, plainPod("attack", attacker))
		}),
		Entry("a mirror pod of another node", func(ctx context.Context, p *nodeSpace) error {
			return p.createdPod(ctx, mirrorPod("attack", nodes[victim]))
		}),
		Entry("a mirror pod with an account", func(ctx context.Context, p *nodeSpace) error {
			pod := mirrorPod("attack", nodes[attacker])
			pod.Spec.ServiceAccountName = "default"
			return p.createdPod(ctx, pod)
		}),
		Entry("a token that is bound to nothing", func(ctx context.Context, p *nodeSpace) error {
			return p.token(ctx, "", "")
		}),
		Entry("a token for whatever pod has a name", func(ctx context.Context, p *nodeSpace) error {
			return p.token(ctx, "own", "")
		}),
		Entry("a token for a pod of another node", func(ctx context.Context, p *nodeSpace) error {
			return p.token(ctx, "foreign", p.pods["foreign"])
		}),
		Entry("a token for the pod of that name in another space", func(ctx context.Context, p *nodeSpace) error {
			for _, other := range places {
				if other != p {
					return p.token(ctx, "own", other.pods["own"])
				}
			}
			return nil
		}),
		Entry("a token for an audience that its pod does not have", func(ctx context.Context, p *nodeSpace) error {
			return p.token(ctx, "own", p.pods["own"], "somebody")
		}),
		Entry("a token for the audience of the volume of that name in another space", func(ctx context.Context, p *nodeSpace) error {
			for _, other := range places {
				if other != p {
					return p.token(ctx, "own", p.pods["own"], audienceIn(other.space))
				}
			}
			return nil
		}),
		Entry("the status of another node's pod", func(ctx context.Context, p *nodeSpace) error {
			return p.patchStatus(ctx, "foreign", `{"status":{"message":"attack"}}`)
		}),
		Entry("labels of its pod", func(ctx context.Context, p *nodeSpace) error {
			return p.patchStatus(ctx, "own", `{"metadata":{"labels":{"app":"attack"}}}`)
		}),
		Entry("the eviction of another node's pod", func(ctx context.Context, p *nodeSpace) error { return p.evict(ctx, "foreign") }),
		Entry("the deletion of another node's pod", func(ctx context.Context, p *nodeSpace) error {
			return p.node.CoreV1().Pods("default").Delete(ctx, "foreign", immediately)
		}),
		Entry("labels of its claim", func(ctx context.Context, p *nodeSpace) error {
			_, err := p.node.CoreV1().PersistentVolumeClaims("default").Patch(ctx, "data", types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"app":"attack"}}}`), metav1.PatchOptions{}, "status")
			return err
		}),
	)

	DescribeTable("is refused what is not its own:", func(ctx SpecContext, attack func(context.Context, kubernetes.Interface) error) {
		Expect(attack(ctx, in(tenant.System).node)).To(refused)
	},
		Entry("labels of another node", func(ctx context.Context, c kubernetes.Interface) error {
			return patchNode(ctx, c, victim, `{"metadata":{"labels":{"app":"attack"}}}`)
		}),
		Entry("addresses of another node", func(ctx context.Context, c kubernetes.Interface) error {
			return patchNode(ctx, c, victim, `{"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.1"}]}}`, "status")
		}),
		Entry("labels by which pods are kept from nodes", func(ctx context.Context, c kubernetes.Interface) error {
			return patchNode(ctx, c, attacker, `{"metadata":{"labels":{"node-restriction.kubernetes.io/tenant":"b"}}}`)
		}),
		Entry("its taints", func(ctx context.Context, c kubernetes.Interface) error {
			return patchNode(ctx, c, attacker, `{"spec":{"taints":[{"key":"attack","effect":"NoSchedule"}]}}`)
		}),
		Entry("the lease of another node", func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: victim}}, metav1.CreateOptions{})
			return err
		}),
		Entry("the drivers of another node", func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.StorageV1().CSINodes().Create(ctx, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: victim}}, metav1.CreateOptions{})
			return err
		}),
	)

	It("does what a kubelet does, in the system space and in a tenant's", func(ctx SpecContext) {
		for _, p := range places {
			By("in " + p.space.String())
			Expect(p.token(ctx, "own", p.pods["own"])).To(Succeed())
			Expect(p.token(ctx, "own", p.pods["own"], audienceIn(p.space))).To(Succeed(), "for the driver of its pod's volume")
			Expect(p.patchStatus(ctx, "own", `{"status":{"phase":"Running","message":"here"}}`)).To(Succeed())
			Expect(p.evict(ctx, "evicted")).To(Succeed())
			Expect(p.node.CoreV1().Pods("default").Delete(ctx, "doomed", immediately)).To(Succeed())
			_, err := p.node.CoreV1().PersistentVolumeClaims("default").Patch(ctx, "data", types.MergePatchType,
				[]byte(`{"status":{"capacity":{"storage":"1Gi"}}}`), metav1.PatchOptions{}, "status")
			Expect(err).NotTo(HaveOccurred())
		}
		system := in(tenant.System)
		Expect(patchNode(ctx, system.node, attacker, `{"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.1"}]}}`, "status")).To(Succeed())
		Expect(patchNode(ctx, system.node, attacker, `{"metadata":{"labels":{"kubernetes.io/os":"linux"}}}`)).To(Succeed())
		Expect(system.createdPod(ctx, mirrorPod("static", nodes[attacker]))).To(Succeed())
	})
})

func patchNode(ctx context.Context, client kubernetes.Interface, name, patch string, subresources ...string) error {
	_, err := client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	return err
}
