import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
netG = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 2))
netD = nn.Sequential(nn.Linear(2, 12), nn.LeakyReLU(0.2), nn.Linear(12, 1))
optimizerD = torch.optim.Adam(netD.parameters(), lr=1e-3, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=1e-3, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
for _ in range(10):
    netD.zero_grad()
    real = criterion(netD(torch.randn(16, 2) + 1), torch.ones(16, 1))
    real.backward()
    made = netG(torch.randn(16, 4))
    false = criterion(netD(made.detach()), torch.zeros(16, 1))
    false.backward()
    optimizerD.step()
    netG.zero_grad()
    fooled = criterion(netD(made), torch.ones(16, 1))
    fooled.backward()
    optimizerG.step()
    print(repr((real + false).item()), repr(fooled.item()))
print([value.tolist() for net in (netG, netD) for value in net.state_dict().values()], torch.rand(1).item())
