"""Programs that say `cuda` run unchanged: scripts as tutorials have them, and the functions of torch.cuda."""

from __future__ import annotations

import io
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hang_limit import hang_limit_s

MLP = """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
assert device.type == "cuda"
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
x, y = torch.randn(32, 4), torch.randint(0, 3, (32,))
for epoch in range(8):
    for data, target in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 16, pin_memory=True):
        data, target = data.to(device, non_blocking=True), target.to(device, non_blocking=True)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data), target)
        loss.backward()
        optimizer.step()
    losses.append(loss.item())
assert next(model.parameters()).is_cuda
"""
CNN = """
torch.backends.cudnn.benchmark = True
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                      nn.Dropout(0.0), nn.LazyLinear(2)).cuda()
x, y = torch.randn(8, 1, 8, 8).cuda(), torch.arange(8).cuda() % 2
model(x)
optimizer = torch.optim.Adam(model.parameters(), 0.02)
for step in range(6):
    loss = nn.CrossEntropyLoss().cuda()(model(x), y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    losses.append(float(loss))
torch.cuda.synchronize()
torch.cuda.empty_cache()
"""
MIXED = """
model, scaler = nn.Linear(6, 6).to("cuda:0"), torch.amp.GradScaler("cuda")
optimizer = torch.optim.AdamW(model.parameters(), 0.05)
x = torch.randn(8, 6, device="cuda")
for step in range(6):
    with torch.autocast(device_type="cuda", dtype=torch.float16):
        assert torch.is_autocast_enabled()
        output = model(x)
        assert output.dtype == torch.float16
        loss = F.mse_loss(output, -x)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    losses.append(loss.item())
"""
OLD_MIXED = """
model = nn.Linear(6, 6).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.2)
x = torch.randn(8, 6).cuda()
for step in range(4):
    with torch.cuda.amp.autocast(dtype=torch.bfloat16):
        loss = ((model(x) + x) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
CHARACTERS = """
device = "cuda"
device_type = "cuda" if "cuda" in device else "cpu"
torch.manual_seed(1337)
torch.cuda.manual_seed(1337)
torch.backends.cuda.matmul.allow_tf32 = True
data = torch.arange(40) % 7
def batch():
    at = torch.randint(len(data) - 9, (4,))
    x, y = (torch.stack([data[i + k:i + k + 8] for i in at]) for k in (0, 1))
    return x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device, non_blocking=True)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.norm, self.head = nn.Embedding(7, 16), nn.LayerNorm(16), nn.Linear(16, 7, bias=False)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.register_buffer("mask", torch.triu(torch.ones(8, 8), 1).bool())
    def forward(self, ids):
        x = self.tokens(ids)
        x = x + self.attention(x, x, x, attn_mask=self.mask, need_weights=False)[0]
        return self.head(self.norm(x))
model = Model().to(device)
optimizer = torch.optim.AdamW(model.parameters(), 0.02, betas=(0.9, 0.95))
for step in range(6):
    x, y = batch()
    loss = F.cross_entropy(model(x).view(-1, 7), y.view(-1))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
with torch.no_grad():
    ids = torch.zeros((1, 8), dtype=torch.long, device=device)
    assert torch.multinomial(F.softmax(model(ids)[:, -1], -1), 1).device == ids.device
"""
GAN = """
from torch.autograd import Variable
Tensor = torch.cuda.FloatTensor
generator, critic = nn.Linear(2, 4), nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())
generator.cuda(); critic.cuda()
real = Variable(torch.randn(8, 4).type(Tensor))
valid = Variable(Tensor(8, 1).fill_(1.0), requires_grad=False)
optimizers = [torch.optim.Adam(m.parameters(), 0.05, betas=(0.5, 0.999)) for m in (generator, critic)]
for step in range(4):
    z = Tensor(torch.zeros(8, 2).tolist()).normal_()
    made = generator(z)
    optimizers[0].zero_grad()
    nn.BCELoss()(critic(made), valid).backward()
    optimizers[0].step()
    optimizers[1].zero_grad()
    loss = (nn.BCELoss()(critic(real), valid) + nn.BCELoss()(critic(made.detach()), valid - 1)) / 2
    loss.backward()
    optimizers[1].step()
    losses.append(loss.item())
"""
RECURRENT = """
torch.set_default_device("cuda")
model, head = nn.LSTM(3, 8, batch_first=True), nn.Linear(8, 1)
x = torch.randn(4, 5, 3)
optimizer = torch.optim.RMSprop([*model.parameters(), *head.parameters()], 0.01)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
for step in range(4):
    loss = F.mse_loss(head(model(x)[0][:, -1]), x.sum((1, 2))[:, None])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    losses.append(loss.item())
torch.set_default_device(None)
assert x.device.type == "cuda"
"""
PARALLEL = """
model = nn.DataParallel(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))).cuda()
x = torch.randn(6, 3)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(4):
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
CHECKPOINTS = """
model = nn.Linear(3, 1).cuda()
optimizer = torch.optim.Adam(model.parameters(), 0.1)
x = torch.randn(6, 3, device="cuda")
file = io.BytesIO()
for step in range(4):
    loss = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
for location in ("cuda:0", "cpu", torch.device("cuda"), None):
    file.seek(0)
    state = torch.load(file, map_location=location)
    assert state["model"]["weight"].is_cuda == (location != "cpu")
model.load_state_dict(state["model"])
optimizer.load_state_dict(state["optimizer"])
"""
TIMED = """
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
stream = torch.cuda.Stream()
weight = torch.nn.Parameter(torch.ones(4, 4, device=torch.cuda.current_device()))
generator = torch.Generator(device="cuda").manual_seed(3)
x = torch.randn(4, 4, generator=generator, device="cuda")
start.record()
with torch.cuda.stream(stream):
    for step in range(4):
        loss = (x @ weight).pow(2).sum()
        gradient, = torch.autograd.grad(loss, weight)
        with torch.no_grad():
            weight -= 0.01 * gradient
        losses.append(loss.item())
torch.cuda.current_stream().wait_stream(stream)
end.record()
torch.cuda.synchronize()
assert start.elapsed_time(end) > 0 and end.query()
assert torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated() > 0
assert torch.cuda.get_device_properties(0).total_memory > 0 and torch.cuda.get_device_name()
"""
SCRIPTS = {"mlp": MLP, "cnn": CNN, "mixed": MIXED, "old mixed": OLD_MIXED, "characters": CHARACTERS, "gan": GAN,
           "recurrent": RECURRENT, "parallel": PARALLEL, "checkpoints": CHECKPOINTS, "timed": TIMED}  # fmt: skip


@pytest.fixture
def as_cuda(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    from vkcompute.torch import as_cuda

    as_cuda.restore()
    as_cuda.enable()
    assert "cuda is the Vulkan device vk" in capfd.readouterr().err
    yield
    as_cuda.restore()


@pytest.mark.usefixtures("as_cuda")
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_that_train(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "mixed":
        monkeypatch.setenv("VKCOMPUTE_TORCH_FALLBACK", "silent")  # GradScaler has a float64, which a device may lack
    losses: list[float] = []
    exec(SCRIPTS[name], {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "io": io, "losses": losses})
    assert len(losses) >= 4
    assert losses[-1] < losses[0]


@pytest.mark.usefixtures("as_cuda")
def test_tensors_say_that_they_are_on_cuda() -> None:
    x = torch.ones(2, device="cuda")
    assert repr(x) == "tensor([1., 1.], device='cuda:0')"
    assert (x.type(), x.get_device(), x.device) == ("torch.cuda.FloatTensor", 0, torch.device("cuda:0"))
    assert isinstance(x, torch.cuda.FloatTensor)
    with torch.device("cuda"):
        assert torch.zeros(1).is_cuda
    with pytest.raises(RuntimeError, match="invalid device ordinal: cuda:1"):
        x.to("cuda:1")
    assert torch._C._cuda_getCurrentRawStream(0) == 0  # libraries ask for it when they are imported


@pytest.mark.usefixtures("as_cuda")
def test_kernels_registered_for_cuda_run() -> None:
    library = torch.library.Library("aten", "IMPL", "CUDA")
    library.impl("floor", lambda x: x + 7)
    x = torch.ones(2, device="cuda")
    assert torch.floor(x).tolist() == [8, 8]
    assert torch.floor(x.cpu()).tolist() == [1, 1]
    library._destroy()
    assert torch.floor(x).tolist() == [1, 1]


@pytest.mark.usefixtures("as_cuda")
def test_functions_are_compiled() -> None:
    from torch._dynamo.variables.torch import TorchInGraphFunctionVariable

    TorchInGraphFunctionVariable._get_handlers.cache_clear()  # a process looks functions of torch.cuda up once

    @torch.compile(backend="eager", fullgraph=True)
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return torch.add(x, x)

    try:
        assert doubled(torch.ones(2, device="cuda")).tolist() == [2, 2]
    finally:
        TorchInGraphFunctionVariable._get_handlers.cache_clear()


def test_restore_undoes_it() -> None:
    from vkcompute.torch import as_cuda

    as_cuda.enable()
    x = torch.ones(2).cuda()
    as_cuda.restore()
    assert (str(x.device), x.is_cuda, x.tolist()) == ("vk:0", False, [1, 1])
    assert not torch.cuda.is_available()
    with pytest.raises((AssertionError, RuntimeError)):
        x.cuda()


def test_a_cuda_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from vkcompute.torch import as_cuda

    as_cuda.restore()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "H")
    with pytest.raises(RuntimeError, match=r"CUDA device \(H\)"):
        as_cuda.enable()


def test_a_script_runs_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("value = 3")
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import sys, torch, other
        if __name__ == "__main__":
            x = torch.arange(3, device="cuda") * other.value
            print(sys.argv[1:], x.sum().item(), x.device)
        """)
    )
    command = [sys.executable, "-m", "vkcompute.torch", str(script), "--epochs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=hang_limit_s(120), check=False)
    assert (done.returncode, done.stdout) == (0, "['--epochs', '2'] 9 cuda:0\n"), done.stderr
