package translate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

func spaceClaim(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: "data", Namespace: "acme|shop", UID: "c", Finalizers: []string{"kubernetes.io/pvc-protection"},
			Labels:      map[string]string{"app": "web", names.InstallationLabel: "other"},
			Annotations: map[string]string{"volume.kubernetes.io/selected-node": "node", names.TenantAnnotation: "globex"},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("fast"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeMode: new(corev1.PersistentVolumeFilesystem),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	if change != nil {
		change(claim)
	}
	return claim
}

func TestCheckClaim(t *testing.T) {
	snapshot := func(c *corev1.PersistentVolumeClaim) {
		c.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: new("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: "s"}
	}
	for name, tc := range map[string]struct {
		change func(*corev1.PersistentVolumeClaim)
		want   string
	}{
		"a plain one":      {change: func(*corev1.PersistentVolumeClaim) {}},
		"no class yet":     {change: func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }},
		"no class":         {func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("") }, "spec.storageClassName: Forbidden: volumes without a class"},
		"a volume":         {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "theirs" }, "spec.volumeName: Forbidden: the host cluster finds volumes"},
		"a selector":       {func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }, "spec.selector: Forbidden: volumes of the host are not chosen by labels"},
		"other attributes": {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = new("gold") }, "spec.volumeAttributesClassName: Forbidden: attributes of volumes"},
		"a snapshot":       {snapshot, "spec.dataSource: Forbidden: a volume is a copy of that of a PersistentVolumeClaim"},
		"a populator": {func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: new("example.com"), Kind: "PersistentVolumeClaim", Name: "x"}
		}, "spec.dataSourceRef: Forbidden: a volume is a copy"},
		"another namespace": {func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "x", Namespace: new("theirs")}
		}, "spec.dataSourceRef.namespace: Forbidden: a volume is not made of what is in another namespace"},
		"what is not storage": {func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests["example.com/large"] = resource.MustParse("1")
		}, "spec.resources.requests[example.com/large]: Forbidden: a claim asks for storage alone; remove it"},
		"a limit of what is not storage": {func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Limits = corev1.ResourceList{"example.com/large": resource.MustParse("1"), "example.com/larger": resource.MustParse("1")}
		}, "spec.resources.limits[example.com/large"},
		"a mode twice": {func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = append(c.Spec.AccessModes, corev1.ReadWriteOnce)
		}, "spec.accessModes: Forbidden: it has a mode twice; name each once"},
		"two modes": {change: func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = append(c.Spec.AccessModes, corev1.ReadWriteMany)
		}},
		"a claim's copy": {change: func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "x"}
		}},
		"a claim's copy too": {change: func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "x"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			errs := CheckClaim(&spaceClaim(tc.change).Spec, field.NewPath("spec"))
			if tc.want == "" && len(errs) > 0 {
				t.Errorf("refused: %v", errs)
			}
			if tc.want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), tc.want)) {
				t.Errorf("got %v, want %q", errs, tc.want)
			}
		})
	}
}

// TestClaim checks that the host gets what a claim asks for, and nothing by which it would be another tenant's.
func TestClaim(t *testing.T) {
	home := names.Namespace{Installation: "i", Tenant: "acme", TenantUID: "t", Name: "shop", UID: "n"}
	claim := spaceClaim(func(c *corev1.PersistentVolumeClaim) {
		c.Annotations[corev1.BetaStorageClassAnnotation] = "slow"
		c.Spec.VolumeName, c.Spec.Selector, c.Spec.VolumeAttributesClassName = "theirs", &metav1.LabelSelector{}, new("gold")
		c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "x"}
		c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "x", Namespace: new("theirs")}
	})
	want := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: "data", Namespace: home.Host(), Labels: map[string]string{names.InstallationLabel: "i"}, Annotations: home.MarksOf("data", "c"),
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("slow"), AccessModes: claim.Spec.AccessModes, VolumeMode: claim.Spec.VolumeMode, Resources: claim.Spec.Resources,
			DataSource: &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "x"},
		},
	}
	if diff := cmp.Diff(want, Claim(claim, home)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestClaimStatus checks that a space hears of the host what concerns it, and nothing that names what is the host's.
func TestClaimStatus(t *testing.T) {
	gi := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	host := &corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{
		Phase: corev1.ClaimBound, Capacity: gi, AllocatedResources: gi, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		CurrentVolumeAttributesClassName: new("gold"),
		Conditions: []corev1.PersistentVolumeClaimCondition{
			{Type: corev1.PersistentVolumeClaimControllerResizeError, Status: corev1.ConditionTrue, Reason: "vol-7", Message: "vol-7 on 10.0.0.1"},
			{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue},
			{Type: corev1.PersistentVolumeClaimUnused, Status: corev1.ConditionFalse, Message: "the host's"},
			{Type: "example.com/secret", Message: "of the host"},
		},
	}}
	unused := corev1.PersistentVolumeClaimCondition{Type: corev1.PersistentVolumeClaimUnused, Status: corev1.ConditionTrue, Message: "the space's"}
	claim := spaceClaim(func(c *corev1.PersistentVolumeClaim) {
		c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending, Conditions: []corev1.PersistentVolumeClaimCondition{
			unused, {Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue},
		}}
	})
	want := corev1.PersistentVolumeClaimStatus{
		Phase: corev1.ClaimBound, Capacity: gi, AllocatedResources: gi, AccessModes: host.Status.AccessModes,
		Conditions: []corev1.PersistentVolumeClaimCondition{
			{Type: corev1.PersistentVolumeClaimControllerResizeError, Status: corev1.ConditionTrue, Message: "the host cluster could not resize the volume"},
			{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue,
				Message: "Waiting for user to (re-)start a pod to finish file system resize of volume on node."},
			unused,
		},
	}
	if diff := cmp.Diff(want, ClaimStatus(host, claim)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestVolume checks that what a space is shown says nothing of what the host has.
func TestVolume(t *testing.T) {
	claim := spaceClaim(nil)
	host := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{UID: "host-c", Namespace: "tn-acme-shop-x"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "vol-7"},
		Status: corev1.PersistentVolumeClaimStatus{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")},
		},
	}
	want := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "acme|pvc-c", Annotations: map[string]string{names.HostUIDAnnotation: "host-c"}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: host.Status.Capacity, AccessModes: host.Status.AccessModes, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			StorageClassName: "fast", VolumeMode: new(corev1.PersistentVolumeFilesystem),
			ClaimRef:               &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "shop", Name: "data", UID: "c"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "workloads.tenantry.io", VolumeHandle: "c"}},
		},
	}
	got := Volume("acme|pvc-c", claim, host, "shop", corev1.PersistentVolumeReclaimRetain)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !IsVolumeOf(got, claim, host) {
		t.Error("it is not the claim's")
	}
	other := spaceClaim(func(c *corev1.PersistentVolumeClaim) { c.UID = "other" })
	if IsVolumeOf(got, other, host) || IsVolumeOf(got, claim, &corev1.PersistentVolumeClaim{}) {
		t.Error("it is another one's as well")
	}
}

// TestEphemeral checks that the host makes no claims of its own, which no quota counts.
func TestEphemeral(t *testing.T) {
	pod := plain()
	ephemeralClaim(corev1.PersistentVolumeClaimSpec{StorageClassName: new("fast")})(pod)
	got := Options{}.Pod(pod, Home{}).Spec.Volumes
	want := []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "web-0-v"}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
